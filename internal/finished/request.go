package finished

import (
	"cmp"
	"slices"
	"strings"

	"rmreplay/internal/hpc"
	"rmreplay/internal/slurmspec/sbatch"
)

// request returns what the job asked for. The record's own fields override the command line.
func (b *Builder) request(r *Job) (hpc.Request, error) {
	request, known, err := b.commandLine(r)
	if err != nil {
		return request, err
	}
	if !known {
		request = hpc.Request{}
		recordedSize(&request, r)
	}
	request.User = r.User
	request.Name = cmp.Or(r.Name, request.Name)
	request.Account = cmp.Or(r.Account, request.Account)
	request.QOS = cmp.Or(r.QOS, request.QOS)
	request.WCKey = cmp.Or(strings.TrimPrefix(r.WCKey, "*"), request.WCKey) // a default key has a star
	if b.preset(r) || !slices.Contains(strings.Split(request.Partition, ","), r.Partition) {
		request.Partition = r.Partition // a preset job runs where it did
	}
	if request.Group = ""; r.Group != "" && r.Group != b.users[r.User].Group {
		request.Group = r.Group
	}
	if r.TimeLimit > 0 {
		request.TimeLimit = r.TimeLimit
	}
	request.Reservation = cmp.Or(request.Reservation, r.Reservation)
	request.Constraint = cmp.Or(request.Constraint, r.Constraint)
	request.Licenses = cmp.Or(request.Licenses, r.Licenses)
	request.Comment = cmp.Or(request.Comment, r.Comment)
	if r.Held && r.Start == 0 {
		request.Hold = true
	}
	eligible := r.Eligible
	released := request.Hold && r.Start != 0
	if released {
		request.Hold = false
		if eligible == 0 {
			eligible = r.Start // by then at the latest
		}
	}
	// Such a job waited for another one or for the limit of its array, and no user asked for
	// the delay.
	if eligible > r.Submit && !request.Hold && (released || !known && r.ArrayJob == 0) {
		request.Begin = eligible.Sub(r.Submit)
		b.Note(NoteBegin)
	}
	return request, nil
}

// commandLine reads the options of the batch script and of the command line. ok is false if
// there are none, or if they cannot be read; that is counted.
func (b *Builder) commandLine(r *Job) (request hpc.Request, ok bool, err error) {
	words, err := sbatch.Split(r.SubmitLine)
	if len(words) < 2 && r.Script == "" {
		return request, false, nil
	}
	if err == nil && len(words) > 0 {
		words = words[1:] // sbatch itself
	}
	var s *sbatch.Submission
	if err == nil {
		s, err = sbatch.Parse(append(scriptOptions(r.Script), words...), r.Submit)
	}
	if err != nil {
		return request, false, b.book.Fall(RuleBadSubmitLine, "job %s: its command line: %v", r.ID, err)
	}
	return s.Request, true, nil
}

// scriptOptions returns the words of a batch script's #SBATCH lines. They end at the first line
// that is neither blank nor a comment (sbatch(1)).
func scriptOptions(script string) []string {
	var words []string
	for line := range strings.Lines(script) {
		line = strings.TrimSpace(line)
		if line != "" && line[0] != '#' {
			break
		}
		if options, ok := strings.CutPrefix(line, "#SBATCH"); ok {
			if more, err := sbatch.Split(options); err == nil {
				words = append(words, more...)
			}
		}
	}
	return words
}

// recordedSize sets the size from the record's counts.
func recordedSize(request *hpc.Request, r *Job) {
	request.MinNodes = r.ReqNodes
	if request.MinNodes == 0 {
		request.MinNodes = r.AllocNodes
	}
	if request.MinNodes == r.AllocNodes {
		request.MaxNodes = r.AllocNodes // as it ran; who asked for no number may have got more
	}
	request.Tasks = r.ReqCPUs
	if request.Tasks == 0 {
		request.Tasks = r.AllocCPUs
	}
	switch {
	case r.MemPerCPU > 0:
		request.MemPerCPU = r.MemPerCPU
	case r.MemPerNode > 0:
		request.MemPerNode = r.MemPerNode
	case r.Memory > 0:
		request.MemPerNode = r.Memory / int64(max(request.MinNodes, 1))
	}
	request.GRES, request.GPUs = r.GRES, r.GPUs
}
