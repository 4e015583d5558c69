// Package topology reads topology.yaml, which slurmctld reads since 25.05 in place of
// topology.conf and TopologyPlugin. For older releases it translates the file, if the release has
// an equivalent.
//
// The keys are from TOPOLOGY_CONF in src/plugins/data_parser/v0.0.43 to v0.0.45 (25.05 to 26.05).
// A mistake that keeps slurmctld from starting is an error here; text that slurmctld ignores is a
// warning.
package topology
