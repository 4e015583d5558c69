// Package topology reads topology.yaml, which slurmctld reads since 25.05 in place of topology.conf
// and TopologyPlugin, and says the same for older releases where they have an equivalent.
//
// The keys are those of TOPOLOGY_CONF in src/plugins/data_parser/v0.0.43 to v0.0.45 (25.05 to
// 26.05). What slurmctld refuses to start with is an error here, and what it ignores is a warning.
package topology
