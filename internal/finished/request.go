package finished

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"rmreplay/internal/hpc"
	"rmreplay/internal/slurmspec/sbatch"
)

// request returns the job's request. The record's own fields override the command line. beginMade says that the begin
// time stands for an unknown cause of a later eligible time.
func (b *Builder) request(r *Job) (request hpc.Request, beginMade bool, err error) {
	request, known, err := b.commandLine(r)
	if err != nil {
		return request, false, err
	}
	switch {
	case known && r.WholeLine:
	case known:
		err = b.hold(&request, r)
	default:
		request = hpc.Request{}
		b.recordedSize(&request, r)
		recordedMemory(&request, r)
		recordedGPUs(&request, r)
		request.Dependency, request.TasksPerNode = r.Dependency, r.TasksPerNode
	}
	if err != nil {
		return request, false, err
	}
	request.User = r.User
	request.Name = cmp.Or(r.Name, request.Name)
	request.Account = cmp.Or(r.Account, request.Account)
	request.QOS = cmp.Or(r.QOS, request.QOS)
	request.WCKey = cmp.Or(strings.TrimPrefix(r.WCKey, "*"), request.WCKey) // a default WCKey has an asterisk
	if b.preset(r) || !slices.Contains(strings.Split(request.Partition, ","), r.Partition) {
		request.Partition = r.Partition // a preset job starts in the partition where it ran
	}
	if request.Group = ""; r.Group != "" && r.Group != b.users[r.User].Group {
		request.Group = r.Group
	}
	if shortened := request.TimeMin > 0 && r.TimeLimit < request.TimeLimit; r.TimeLimit > 0 && !shortened {
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
			eligible = r.Start // the job was eligible by then at the latest
		}
	}
	// A job of an array, or a job with a command line, waited for another job or for its array's
	// limit. In these cases the user did not request the delay.
	if eligible > r.Submit && !request.Hold && (released || !known && r.ArrayJob == 0) {
		request.Begin, beginMade = eligible.Sub(r.Submit), true
		b.Note(NoteBegin)
	}
	return request, beginMade, nil
}

// commandLine reads the options in the batch script and on the command line. ok is false if there
// are no options, or if they contradict each other. Contradictions are counted, and so are options
// that are ignored.
func (b *Builder) commandLine(r *Job) (request hpc.Request, ok bool, err error) {
	if len(strings.Fields(r.SubmitLine)) < 2 && r.Script == "" {
		return request, false, nil
	}
	s, err := sbatch.ParseRecorded(ScriptOptions(r.Script), r.SubmitLine, []string{r.Name, r.Comment}, r.Submit)
	if err != nil {
		return request, false, b.book.Fall(RuleBadSubmitLine, "job %s: its command line: %v", r.ID, err)
	}
	if s.Wrapped {
		b.Note(NoteWrapped)
	}
	if len(s.LeftOut) > 0 {
		err = b.book.Fall(RuleSubmitLineOption, "job %s: its command line: %v", r.ID, errors.Join(s.LeftOut...))
	}
	return s.Request, true, err
}

// Asked returns the request that the options in the batch script and on the command line make. It is
// empty without options, and if the options contradict each other.
func (r *Job) Asked() hpc.Request {
	s, err := sbatch.ParseRecorded(ScriptOptions(r.Script), r.SubmitLine, []string{r.Name, r.Comment}, r.Submit)
	if err != nil {
		return hpc.Request{}
	}
	return s.Request
}

// ScriptOptions returns the words in a batch script's #SBATCH lines, up to the first line that is
// neither blank nor a comment (sbatch(1)).
func ScriptOptions(script string) []string {
	var words []string
	for line := range strings.Lines(script) {
		line = strings.TrimSpace(line)
		if line != "" && line[0] != '#' {
			break
		}
		if options, ok := strings.CutPrefix(line, "#SBATCH"); ok {
			more, err := sbatch.Split(options)
			if err != nil {
				continue
			}
			if at := slices.IndexFunc(more, isComment); at >= 0 {
				more = more[:at]
			}
			words = append(words, more...)
		}
	}
	return words
}

func isComment(word string) bool { return strings.HasPrefix(word, "#") }
