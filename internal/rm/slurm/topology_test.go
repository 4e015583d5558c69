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

// TestTopologyYAML: slurmctld of 25.05 and newer places jobs by the site's topology.yaml: two nodes of
// a job are on one switch, although the first two free ones are on two. An older slurmctld does not
// read the file, and the configuration is refused.
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
	if !slurm.Release.Since(slurmspec.R2505) {
		_, err := conf.Preview(s.cluster, slurm.Release, "")
		if want := "topology.yaml: slurmctld reads it since 25.05"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
		return
	}
	s.workload.Jobs = workload.JobsOf(job("pair", 10, 60, func(j *hpc.Job) {
		j.MinNodes, j.MaxNodes, j.Tasks, j.Constraint, j.Switches, j.NodeList = 2, 2, 8, "cpu", 1, "c4"
	}))
	o := s.play(t)
	o.want("pair COMPLETED 11-71 c[1,4]")
	o.drained()
}
