package capture

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"rmreplay/internal/lines"
)

// identityKeys are keys that `scontrol show job` prints only before a job's name.
var identityKeys = []string{"JobId", "ArrayJobId", "ArrayTaskId", "ArrayTaskThrottle", "HetJobId", "HetJobOffset"}

// keys are the words that begin a value if "=" follows. A value extends to the next key on the line, because names of
// users and groups may have blanks.
var keys = func() map[string]bool {
	known := map[string]bool{}
	for key := range strings.FieldsSeq(`HetJobIdSet JobName SLUID UserId GroupId MCS_label
		Priority Nice Account QOS WCKey JobState Reason Dependency FailedNode FedOrigin FedViableSiblings Requeue Restarts BatchFlag Reboot
		ExitCode DerivedExitCode RunTime TimeLimit TimeMin SubmitTime EligibleTime ResizeTime AccrueTime StartTime EndTime Deadline
		PreemptEligibleTime PreemptTime SuspendTime SecsPreSuspend LastSchedEval Scheduler Partition AllocNode:Sid ReqNodeList
		ExcNodeList NodeList SchedNodeList BatchHost StepMgrEnabled NumNodes NumCPUs NumTasks CPUs/Task ReqB:S:C:T ReqTRES AllocTRES TRES Socks/Node
		NtasksPerN:B:S:C CoreSpec ThreadSpec JOB_GRES Nodes CPU_IDs Mem GRES MinCPUsNode MinMemoryNode MinMemoryCPU MinTmpDiskNode MemUpdate
		Features Prefer DelayBoot Reservation OverSubscribe Exclusive Contiguous Licenses LicensesAlloc Network Switches Command`) {
		known[key] = true
	}
	return known
}()

// lateKeys are the keys that are accepted after Command, where users' texts may contain any words.
var lateKeys = []string{"TresPerJob", "TresPerNode", "TresPerTask", "TresPerSocket", "CpusPerTres", "MemPerTres",
	"NtasksPerTRES", "SegmentSize", "Switches", "SubmitLine", "WorkDir",
	"StdErr", "StdIn", "StdOut", "Comment", "AdminComment", "SystemComment", "Extra", "Power", "MailUser", "MailType",
	"BurstBuffer"}

// shown is a job as scontrol shows it.
type shown struct {
	line   int
	values map[string]string
	// doubt says why the fields may belong to another job; nil if they belong to this job.
	doubt error
	// cut says that the record ends within the job's name.
	cut bool
}

// eachJob calls f for every job in the output of `scontrol show job`, with or without --oneliner.
// Names and comments may have any text, also line breaks and fields of scontrol.
func eachJob(r io.Reader, name string, f func(*shown) error) error {
	var list []*shown
	var record []string
	begins, none := 0, false
	flush := func() {
		if record == nil {
			return
		}
		job := newShown(begins, record)
		if n := len(list); n > 0 && list[n-1].cut && job.doubt == nil {
			job.doubt = fmt.Errorf("the record of line %d ends within the job's name, so this may be a part of that record", list[n-1].line)
		}
		list, record = append(list, job), nil
	}
	err := lines.Each(r, name, func(number int, line []byte) error {
		text := lines.UTF8(line)
		if strings.HasPrefix(text, "JobId=") {
			flush()
			begins = number
		}
		none = none || strings.HasPrefix(text, "No jobs in the system")
		switch {
		case strings.TrimSpace(text) == "" || strings.HasPrefix(text, "No jobs in the system"):
			return nil
		case begins == 0:
			return fmt.Errorf("%.60q: want JobId=... as scontrol show job prints it", text)
		}
		record = append(record, text)
		return nil
	})
	if err != nil {
		return err
	}
	if flush(); len(list) == 0 && !none {
		return fmt.Errorf("%s: empty (want the output of scontrol show job)", name)
	}
	for _, job := range list {
		if err := f(job); err != nil {
			return fmt.Errorf("%s:%d: %w", name, job.line, err)
		}
	}
	return nil
}

// ends reports whether a line is at the end of a record, where scontrol prints the paths of the
// script's files.
func ends(line string) bool {
	return strings.Contains(line, " WorkDir=") || strings.Contains(line, " StdOut=")
}

// newShown reads the record of a job that begins in a line.
func newShown(line int, record []string) *shown {
	s := &shown{line: line, values: map[string]string{}}
	if slices.ContainsFunc(record[1:], func(text string) bool { return strings.HasPrefix(text, indent+"UserId=") }) {
		s.lines(record)
	} else {
		s.words("", strings.Join(record, " "))
	}
	for key, value := range s.values {
		if value = strings.TrimSpace(value); value == "(null)" || value == "N/A" || value == "Unknown" || value == "None" {
			value = ""
		}
		s.values[key] = value
	}
	s.cut = s.values["JobState"] == "" && !slices.ContainsFunc(record, ends)
	return s
}

// indent is at the beginning of every line of a job except the first line. Output of scontrol --oneliner has no
// indented lines.
const indent = "   "

// lines reads a record of several lines. In the first line the name is the rest of the line. The name may have line
// breaks, so no field counts until UserId, the next field that scontrol always prints.
func (s *shown) lines(record []string) {
	identity, name, _ := strings.Cut(record[0], "JobName=")
	s.words("", identity)
	s.values["JobName"] = name
	for _, line := range record[1:] {
		fields, indented := strings.CutPrefix(line, indent)
		if !indented { // a line within a value that has line breaks
			continue
		}
		fields = strings.TrimSpace(fields)
		key, value, _ := strings.Cut(fields, "=")
		_, begun := s.values["UserId"]
		_, late := s.values["Command"]
		switch {
		case late && slices.Contains(lateKeys, key):
			s.values[key] = value
		case late:
		case key == "UserId" && begun:
			s.doubt = errors.New("UserId= appears twice, so one of the two is part of a name")
		case key == "UserId", begun && keys[key] && key != "Command":
			s.words("", fields)
		case begun && key == "Command":
			s.values[key] = value
		}
	}
}

// words reads fields that follow each other on a line. The line begins with the value of key.
func (s *shown) words(key, line string) {
	for word := range strings.SplitSeq(line, " ") {
		next, value, ok := strings.Cut(word, "=")
		if !ok || !s.begins(next) {
			if key != "" {
				s.values[key] += " " + word
			}
			continue
		}
		if next == "UserId" {
			// UserId follows JobName: all fields read since JobName were parts of the name, so they are removed.
			for key := range s.values {
				if key != "JobName" && !slices.Contains(identityKeys, key) {
					delete(s.values, key)
				}
			}
		}
		key = next
		s.values[key] = value
	}
}

// begins reports whether a word can be a key at this place of the record. identityKeys are before JobName, Command is
// after JobState, and only lateKeys are after Command.
func (s *shown) begins(key string) bool {
	_, named := s.values["JobName"]
	_, late := s.values["Command"]
	switch {
	case slices.Contains(identityKeys, key):
		return !named
	case late:
		return slices.Contains(lateKeys, key)
	case key == "JobName":
		return !named
	case key == "Command":
		return s.values["JobState"] != ""
	}
	return keys[key]
}
