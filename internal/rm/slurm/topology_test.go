package slurm

import (
	"strings"
	"testing"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/rm/slurm/install"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/workload"
)

// TestTopologyYAML: slurmctld places jobs by the site's topology.yaml. A job of two nodes gets
// nodes of one switch, although the first two free nodes are on two switches. slurmctld reads the
// file since 25.05. Older releases get the same switches in topology.conf.
func TestTopologyYAML(t *testing.T) { eachSlurm(t, testTopologyYAML) }

func testTopologyYAML(t *testing.T, slurm *install.Installation) {
	files := clusterFiles(t)
	files["topology.yaml"] = `---
- topology: fabric
  cluster_default: true
  tree:
    switches:
      - switch: root
        children: left,right
      - switch: left
        nodes: c[1,4],g1
      - switch: right
        nodes: c[2-3],g2
`
	s := scenario{slurm: slurm, cluster: writeCluster(t, files)}
	s.workload.Jobs = workload.JobsOf(job("pair", 10, 60, func(j *hpc.Job) {
		j.MinNodes, j.MaxNodes, j.Tasks, j.Constraint, j.Switches, j.NodeList = 2, 2, 8, "cpu", 1, "c4"
	}))
	o := s.play(t)
	o.want("pair COMPLETED 11-71 c[1,4]")
	o.drained()
}

// TestBlocksYAML: with topology/block, a job of two nodes gets nodes of one block. A release
// without the plugin (before 23.11) refuses the configuration.
func TestBlocksYAML(t *testing.T) { eachSlurm(t, testBlocksYAML) }

func testBlocksYAML(t *testing.T, slurm *install.Installation) {
	files := clusterFiles(t)
	files["topology.yaml"] = `topology: racks
block:
  block_sizes: [2, 4]
  blocks:
    - {block: a, nodes: "c[1,3]"}
    - {block: b, nodes: "c[2,4]"}
    - {block: g, nodes: "g[1-2]"}
`
	s := scenario{slurm: slurm, cluster: writeCluster(t, files)}
	if !slurm.Release.Since(slurmspec.R2311) {
		_, err := conf.Preview(s.cluster, slurm.Release, "")
		if want := "topology/block is not in Slurm " + slurm.Release.Series().String(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
		return
	}
	s.workload.Jobs = workload.JobsOf(job("pair", 10, 60, func(j *hpc.Job) {
		j.MinNodes, j.MaxNodes, j.Tasks, j.Constraint, j.NodeList = 2, 2, 8, "cpu", "c4"
	}))
	o := s.play(t)
	if row := o.rows["pair"]; row.State != hpc.Completed || !strings.HasSuffix(describe(&row), " c[2,4]") {
		t.Errorf("got %s, want the block c[2,4]", describe(&row))
	}
	o.drained()
}
