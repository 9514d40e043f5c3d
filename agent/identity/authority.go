package identity

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"time"
)

const (
	// certificateLife is how long a node's certificate is valid.
	certificateLife = 365 * 24 * time.Hour
	// backdate makes a fresh certificate valid for nodes whose clocks are behind.
	backdate = time.Hour
)

// The CA's certificate has no term: nothing renews it, and its end would be the
// cluster's. 9999-12-31 stands for "none" (RFC 5280 §4.1.2.5); the start lies
// before any clock.
var (
	caStart = time.Unix(0, 0).UTC()
	caEnd   = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
)

// Authority is what voters hold of their cluster: the CA's key and the voter
// key. It is immutable.
type Authority struct {
	cluster         *Cluster
	caKey, voterKey ed25519.PrivateKey
}

// newAuthority founds a cluster.
func newAuthority() (*Authority, error) {
	var id ClusterID
	rand.Read(id[:])
	voterPublic, voterKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	caPublic, caKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := newCA(id, voterPublic, caPublic, caKey)
	if err != nil {
		return nil, fmt.Errorf("cluster CA: %w", err)
	}
	cluster, err := ParseCluster(der)
	if err != nil {
		return nil, err
	}
	return &Authority{cluster, caKey, voterKey}, nil
}

func newCA(id ClusterID, voterKey, public ed25519.PublicKey, key ed25519.PrivateKey) ([]byte, error) {
	which, err := newExtension(clusterExtension, clusterValue{id[:], voterKey})
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "Grapevine cluster " + id.String()},
		NotBefore:             caStart,
		NotAfter:              caEnd,
		KeyUsage:              x509.KeyUsageCertSign,
		IsCA:                  true,
		MaxPathLenZero:        true, // it signs nodes, and no other CAs
		BasicConstraintsValid: true,
		ExtraExtensions:       []pkix.Extension{which},
	}
	return x509.CreateCertificate(rand.Reader, template, template, public, key)
}

// adopt makes an Authority of keys that a voter has handed over.
func adopt(cluster *Cluster, caKey, voterKey ed25519.PrivateKey) (*Authority, error) {
	if !cluster.ca.PublicKey.(ed25519.PublicKey).Equal(caKey.Public()) {
		return nil, fmt.Errorf("cluster %s: the CA key does not belong to the CA's certificate", cluster.id)
	}
	if !cluster.voterKey.Equal(voterKey.Public()) {
		return nil, fmt.Errorf("cluster %s: the voter key is not the one that the CA's certificate names", cluster.id)
	}
	return &Authority{cluster, caKey, voterKey}, nil
}

// Sign signs what Head.SigningBytes gives, for all nodes to verify.
func (a *Authority) Sign(head []byte) [ed25519.SignatureSize]byte {
	return [ed25519.SignatureSize]byte(ed25519.Sign(a.voterKey, head))
}

// issue makes the certificate of a node, valid from now on for a year.
func (a *Authority) issue(node string, role Role, key ed25519.PublicKey) ([]byte, error) {
	if err := CheckNodeID(node); err != nil {
		return nil, err
	}
	roleValue, err := newExtension(roleExtension, string(role))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		Subject:               pkix.Name{CommonName: node},
		DNSNames:              []string{a.cluster.nodeName(node), a.cluster.name()},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(certificateLife),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
		ExtraExtensions:       []pkix.Extension{roleValue},
	}, a.cluster.ca, key, a.caKey)
	if err != nil {
		return nil, fmt.Errorf("certificate of node %s: %w", node, err)
	}
	return der, nil
}

// issueFor issues for whoever made the request, which has to be signed by the
// key that it names. Nothing else of the request counts.
func (a *Authority) issueFor(node string, role Role, request []byte) ([]byte, error) {
	key, err := requestKey(request)
	if err != nil {
		return nil, err
	}
	return a.issue(node, role, key)
}

// newRequest makes the request for a certificate.
func newRequest(node string, key ed25519.PrivateKey) ([]byte, error) {
	return x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: node}}, key)
}

// requestKey reads whose certificate a request (PKCS #10) asks for.
func requestKey(der []byte) (ed25519.PublicKey, error) {
	request, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return nil, fmt.Errorf("certificate request: %w", err)
	}
	key, ok := request.PublicKey.(ed25519.PublicKey)
	if !ok {
		return nil, fmt.Errorf("certificate request: its key is %s, want Ed25519", request.PublicKeyAlgorithm)
	}
	if err := request.CheckSignature(); err != nil {
		return nil, fmt.Errorf("certificate request: %w", err)
	}
	return key, nil
}
