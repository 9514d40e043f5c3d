package api

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http"
	"time"

	"grapevine/agent/identity"
)

// CertificateList answers GET /v1/certificates.
type CertificateList struct {
	Certificates []Certificate `json:"certificates" doc:"that of the cluster's CA, and that of the node; none without TLS"`
}

// Certificate is a certificate of a cluster.
type Certificate struct {
	Kind        string    `json:"kind" doc:"ca or node"`
	Cluster     string    `json:"cluster" doc:"the id of the cluster"`
	Node        string    `json:"node,omitempty" doc:"the id of the node"`
	Role        string    `json:"role,omitempty" doc:"what the node may be: voter or edge"`
	Subject     string    `json:"subject" doc:"whom it names"`
	Names       []string  `json:"names" doc:"the DNS names that it is for"`
	Serial      string    `json:"serial" doc:"its serial number, in hexadecimal digits"`
	NotBefore   time.Time `json:"notBefore" doc:"from when it is valid"`
	NotAfter    time.Time `json:"notAfter" doc:"until when"`
	Fingerprint string    `json:"fingerprint" doc:"its SHA-256, in hexadecimal digits"`
	Key         string    `json:"key" doc:"its public key (Ed25519), in hexadecimal digits"`
	VoterKey    string    `json:"voterKey,omitempty" doc:"of a CA: the public key by which nodes know what voters have decided"`
	PEM         string    `json:"pem" doc:"the certificate itself"`
}

// blockCertificate is the type of the PEM blocks that hold one (RFC 7468 §5).
const blockCertificate = "CERTIFICATE"

// ReadCertificates reads the certificates of clusters in a PEM file, and leaves out what else there is. Those that are
// not of a cluster make the error, beside the others.
func ReadCertificates(data []byte) ([]Certificate, error) {
	var list []Certificate
	var problems []error
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != blockCertificate {
			continue
		}
		c, err := readCertificate(block)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		list = append(list, c)
	}
	if list == nil && problems == nil {
		return nil, errors.New("holds no certificate in PEM form")
	}
	return list, errors.Join(problems...)
}

func readCertificate(block *pem.Block) (Certificate, error) {
	facts, err := identity.Inspect(block.Bytes)
	if err != nil {
		return Certificate{}, err
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return Certificate{}, err
	}
	return Certificate{
		Kind: facts.Kind, Cluster: facts.Cluster, Node: facts.Node, Role: string(facts.Role),
		Subject: cert.Subject.String(), Names: append([]string{}, facts.Names...), Serial: cert.SerialNumber.Text(16),
		NotBefore: facts.NotBefore, NotAfter: facts.NotAfter,
		Fingerprint: facts.Fingerprint, Key: facts.Key, VoterKey: facts.VoterKey,
		PEM: string(pem.EncodeToMemory(&pem.Block{Type: blockCertificate, Bytes: block.Bytes})),
	}, nil
}

func (a *API) certificates(c *call) error {
	certificates, err := a.Cluster.Certificates()
	if err == nil {
		a.answer(c, http.StatusOK, CertificateList{Certificates: append([]Certificate{}, certificates...)})
	}
	return err
}
