package spec

import (
	"errors"
	"net/netip"
	"net/url"
	"regexp"
	"time"
)

var errSkeleton = errors.New("spec is being written")

type Form int

const (
	FormAuto Form = iota
	FormJSON
	FormYAML
	FormShorthand
)

type Decoded struct {
	Key     string
	Value   any
	JSON    []byte
	Notices []Fault
}

func Decode(key string, data []byte, form Form) (Decoded, error) { return Decoded{}, errSkeleton }
func CanonicalKey(key string) (string, error)                    { return key, errSkeleton }
func Ephemeral(key string) bool                                  { return false }
func Encode(value any) []byte                                    { return nil }
func Schema() []byte                                             { return nil }
func Reference() []byte                                          { return nil }

type (
	RouteID       string
	ClusterID     string
	DestinationID string
	Name          string
	Path          string
	Prefix        string
	Regex         string
	Host          string
	Method        string
	CIDR          string
	TrustedProxy  string
	Address       string
	Target        string
	URL           string
	Origin        string
	HeaderName    string
	HeaderValue   string
	HashOn        string
	TLSRef        string
	Pin           string
	RetryOn       string
	ListenAddress string
	Status        int
	Duration      time.Duration
	Size          int64
	Time          struct{ time.Time }
)

func (p Path) Template() Template           { return Template{} }
func (r Regex) Compile() *regexp.Regexp     { return nil }
func (c CIDR) Prefix() netip.Prefix         { return netip.Prefix{} }
func (t TrustedProxy) Nets() []netip.Prefix { return nil }
func (a Address) URL() *url.URL             { return nil }

type SegmentKind uint8

const (
	Literal SegmentKind = iota
	Parameter
	CatchAll
)

type Segment struct {
	Kind SegmentKind
	Text string
}

type Template struct{ Segments []Segment }

func ParseTemplate(s string) (Template, error)    { return Template{}, errSkeleton }
func (t Template) String() string                 { return "" }
func (t Template) HasPrefix(prefix Template) bool { return false }
func (t Template) Literals() int                  { return 0 }
func (t Template) Parameters() int                { return 0 }
func (t Template) CatchAll() bool                 { return false }

type Node struct {
	Name   Name `json:"name,omitzero"`
	Region Name `json:"region,omitzero"`
}

type Listeners struct {
	HTTP    ListenAddress `json:"http,omitzero"`
	HTTPS   ListenAddress `json:"https,omitzero"`
	Admin   ListenAddress `json:"admin,omitzero"`
	Socket  string        `json:"socket,omitzero"`
	Gossip  ListenAddress `json:"gossip,omitzero"`
	Metrics ListenAddress `json:"metrics,omitzero"`
}

type File struct {
	Node      Node
	Listeners Listeners
	Routes    map[string]*Route
	Clusters  map[string]*Cluster
	Config    map[string]Decoded
	Announce  *Instance
	Notices   []Fault
}

type Input struct {
	Name string
	Data []byte
}

func ParseFiles(inputs ...Input) (*File, error) { return &File{}, errSkeleton }
func (f *File) Locate(fault Fault) Fault        { return fault }
