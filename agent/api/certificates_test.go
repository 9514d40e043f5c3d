package api_test

import (
	"strings"
	"testing"

	"grapevine/agent/api"
	"grapevine/agent/identity"
)

func TestReadCertificates(t *testing.T) {
	founder, err := identity.Found(identity.Options{Node: "01j00000000000000000000000"})
	if err != nil {
		t.Fatal(err)
	}
	file := "some words\n" + string(founder.Cluster().CertificatePEM()) + "-----BEGIN X-----\nAAAA\n-----END X-----\n" + string(founder.CertificatePEM())
	list, err := api.ReadCertificates([]byte(file))
	if err != nil || len(list) != 2 {
		t.Fatalf("%+v, %v", list, err)
	}
	ca, node := list[0], list[1]
	id := founder.Cluster().ID().String()
	if ca.Kind != "ca" || ca.Cluster != id || ca.Node+ca.Role != "" || ca.VoterKey == "" || ca.Fingerprint != founder.Cluster().Fingerprint().String() {
		t.Errorf("CA %+v", ca)
	}
	if node.Kind != "node" || node.Cluster != id || node.Node != founder.Node() || node.Role != "voter" || node.VoterKey != "" ||
		!node.NotAfter.Equal(founder.Expires()) || node.Serial == "" || node.Subject == "" || len(node.Names) == 0 {
		t.Errorf("node %+v", node)
	}
	if node.PEM != string(founder.CertificatePEM()) {
		t.Errorf("PEM %s", node.PEM)
	}
	for file, problem := range map[string]string{
		"":      "holds no certificate in PEM form",
		"hello": "holds no certificate in PEM form",
		"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n": "certificate: ",
	} {
		if list, err := api.ReadCertificates([]byte(file)); list != nil || err == nil || !strings.HasPrefix(err.Error(), problem) {
			t.Errorf("%q: %v, %v; want %s", file, list, err, problem)
		}
	}
	// One that is broken hides no other.
	list, err = api.ReadCertificates([]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n" + node.PEM))
	if len(list) != 1 || err == nil {
		t.Errorf("%v, %v", list, err)
	}
}
