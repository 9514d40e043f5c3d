package api

import (
	"encoding/json"
	"strconv"
	"strings"
)

// object is a JSON object of the description.
type object = map[string]any

// openAPI describes operations as an OpenAPI 3.1 document.
func openAPI(ops []operation) []byte {
	schemas := schemas{}
	paths := object{}
	for _, op := range ops {
		path := pathOf(op)
		if paths[path] == nil {
			paths[path] = object{}
		}
		paths[path].(object)[strings.ToLower(op.method)] = op.describe(schemas)
	}
	document, err := json.MarshalIndent(object{
		"openapi": "3.1.0",
		"info": object{
			"title": "Grapevine agent", "version": "1",
			"description": "The API of one node. Problems are documents of RFC 9457. A key keeps its slashes in a path.",
		},
		"servers":    []object{{"url": "http://127.0.0.1:8500"}},
		"paths":      paths,
		"components": object{"schemas": schemas},
	}, "", "  ")
	if err != nil { // made of maps, slices and strings
		panic(err)
	}
	return append(document, '\n')
}

func (op operation) describe(s schemas) object {
	o := object{"operationId": op.name, "summary": op.summary, "responses": op.responses(s)}
	if op.text != "" {
		o["description"] = op.text
	}
	if params := op.parameters(); len(params) > 0 {
		o["parameters"] = params
	}
	if op.body != nil {
		content := object{}
		for _, media := range op.body.types {
			content[media] = object{"schema": s.of(op.body.document)}
		}
		o["requestBody"] = object{"required": true, "content": content}
	}
	return o
}

func (op operation) parameters() []object {
	var params []object
	for step := range strings.SplitSeq(pathOf(op), "/") {
		name, ok := strings.CutPrefix(step, "{")
		if !ok {
			continue
		}
		name = strings.TrimSuffix(name, "}")
		params = append(params, object{
			"name": name, "in": "path", "required": true, "schema": object{"type": "string"}, "description": pathParams[name],
		})
	}
	for _, p := range op.params {
		schema := object{"type": "string"}
		if p.values != nil {
			schema["enum"] = p.values
		}
		if p.repeated {
			schema = object{"type": "array", "items": schema}
		}
		in := "query"
		if p.header {
			in = "header"
		}
		params = append(params, object{"name": p.name, "in": in, "schema": schema, "description": p.text, "required": p.required})
	}
	return params
}

// pathParams are the texts of the parameters in paths.
var pathParams = map[string]string{
	"key":      "the key, with its slashes",
	"node":     "the node, by name or id",
	"id":       "the id",
	"lease":    "the lease, as its first event names it",
	"route":    "the id of the route that the instance serves",
	"instance": "the id of the instance",
	"cluster":  "the id of a cluster, or of the route whose backends make it",
}

// pathOf is the path as the description has it.
func pathOf(op operation) string { return strings.Replace(op.path, keySuffix, "/{key}", 1) }

func (op operation) responses(s schemas) object {
	responses := object{}
	for _, a := range op.allAnswers() {
		r := object{"description": a.text}
		if media := a.mediaType(); media != "" {
			r["content"] = object{media: object{"schema": s.of(a.document)}}
		}
		responses[strconv.Itoa(a.status)] = r
	}
	responses["default"] = object{
		"description": "any other problem, as internal, a fault of the agent",
		"content":     object{"application/problem+json": object{"schema": s.of(Problem{})}},
	}
	return responses
}

// allAnswers adds those of the door.
func (op operation) allAnswers() []answer {
	answers := append([]answer{}, op.answers...)
	answers = append(answers, answer{
		status: 403, document: Problem{},
		text: "forbidden_host, forbidden_origin: on TCP, a request that a web page may have sent",
	})
	if op.body != nil {
		answers = append(answers, answer{status: 415, text: "unsupported_content_type: on TCP", document: Problem{}})
	}
	return answers
}

func (a answer) mediaType() string {
	switch a.document.(type) {
	case nil:
		return a.media
	case Problem:
		return "application/problem+json"
	default:
		return typeJSON
	}
}
