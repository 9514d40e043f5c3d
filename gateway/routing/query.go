package routing

import (
	"fmt"

	"grapevine/gateway/exchange"
)

// judgeQuery tries the conditions on the query. One that servers may read in
// another way is no ground to decide on.
func (c *Conditions) judgeQuery(raw []byte) verdict {
	if len(c.Query) == 0 {
		return verdict{}
	}
	query, err := exchange.ParseQuery(raw)
	if err != nil {
		return verdict{failed: queryFailed, err: unclear{err, ErrAmbiguousQuery}}
	}
	for i := range c.Query {
		switch takes, clear := c.Query[i].takesParameter(query); {
		case !clear:
			return verdict{failed: queryFailed, index: i, err: unclear{
				fmt.Errorf("query: parameter %q is there more than once, with different outcomes", c.Query[i].Name), ErrAmbiguousQuery,
			}}
		case !takes:
			return verdict{failed: queryFailed, index: i}
		}
	}
	return verdict{}
}

// takesParameter is clear when every occurrence of the parameter gives the same
// answer: a server may use the first or the last of them.
func (c *Condition) takesParameter(query exchange.Query) (takes, clear bool) {
	present := false
	for value := range query.Values(c.Name) {
		if now := c.Present == nil && c.takes([]byte(value)); present && now != takes {
			return false, false
		} else {
			takes, present = now, true
		}
	}
	if c.Present != nil {
		return present == *c.Present, true
	}
	return takes, true
}

func (c *Conditions) explainQuery(index int, raw []byte) string {
	query, err := exchange.ParseQuery(raw)
	if err != nil {
		return err.Error()
	}
	for value := range query.Values(c.Query[index].Name) {
		return c.Query[index].explain("parameter", []byte(value), true)
	}
	return c.Query[index].explain("parameter", nil, false)
}
