//go:build !race

package agenttest_test

const raceEnabled = false
