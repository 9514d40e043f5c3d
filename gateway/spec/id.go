package spec

import (
	"errors"
	"regexp"
	"strings"
)

// RouteID names a route; it is folded to lower case.
type RouteID string

// ClusterID names a cluster; it is folded to lower case.
type ClusterID string

// DestinationID names a destination within its cluster.
type DestinationID string

// Name names a policy, a provider, a node or a region.
type Name string

const idPattern = `^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`

var (
	idSyntax = regexp.MustCompile(idPattern)
	errID    = errors.New(`must be 1 to 63 of a-z, 0-9, ".", "_" and "-", with a letter or digit at both ends`)
)

func parseID(text []byte) (string, error) {
	if !idSyntax.Match(text) {
		return "", errID
	}
	return string(text), nil
}

// foldID is the id in lower case.
func foldID(text []byte) (string, error) {
	id, err := parseID(text)
	return strings.ToLower(id), err
}

// UnmarshalText folds the id to lower case.
func (r *RouteID) UnmarshalText(text []byte) error {
	id, err := foldID(text)
	*r = RouteID(id)
	return err
}

// UnmarshalText folds the id to lower case.
func (c *ClusterID) UnmarshalText(text []byte) error {
	id, err := foldID(text)
	*c = ClusterID(id)
	return err
}

// UnmarshalText keeps the case.
func (d *DestinationID) UnmarshalText(text []byte) error {
	id, err := parseID(text)
	*d = DestinationID(id)
	return err
}

// UnmarshalText keeps the case.
func (n *Name) UnmarshalText(text []byte) error {
	id, err := parseID(text)
	*n = Name(id)
	return err
}

func (RouteID) pattern() string       { return idPattern }
func (ClusterID) pattern() string     { return idPattern }
func (DestinationID) pattern() string { return idPattern }
func (Name) pattern() string          { return idPattern }
