package trace

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"

	"rmreplay/internal/formats/swf"
	"rmreplay/internal/hpc"
	"rmreplay/internal/jobjson"
	"rmreplay/internal/output"
	"rmreplay/internal/workload"
)

// Write writes the workload in the trace format, JSON Lines. [Read] then reads the same workload.
func Write(w io.Writer, wl *workload.Workload) error {
	buffered := bufio.NewWriter(w)
	enc := json.NewEncoder(buffered)
	enc.SetEscapeHTML(false)
	if err := writeRecords(buffered, enc, wl); err != nil {
		return fmt.Errorf("writing trace: %w", err)
	}
	if err := buffered.Flush(); err != nil {
		return fmt.Errorf("writing trace: %w", err)
	}
	return nil
}

// Save writes the workload to a file, as [output.File] does.
func Save(path string, wl *workload.Workload) error {
	_, err := output.File(path, func(w io.Writer) error { return Write(w, wl) })
	if err != nil {
		return fmt.Errorf("writing trace: %w", err)
	}
	return nil
}

func writeRecords(out *bufio.Writer, enc *json.Encoder, wl *workload.Workload) error {
	var fileSystems []fileSystem
	for _, f := range wl.FileSystems {
		fileSystems = append(fileSystems, fileSystem(f))
	}
	err := enc.Encode(header{
		Version: Version, Epoch: new(jobjson.InstantOf(wl.Epoch)), Start: jobjson.InstantOf(wl.Start), Source: wl.Source, Rules: wl.Rules,
		Transforms: wl.Transforms, Completion: wl.Completion, MachineNodes: wl.MachineNodes, MachineProcessors: wl.MachineProcessors, Comments: wl.Header,
		FileSystems: fileSystems,
	})
	if err != nil {
		return err
	}
	for _, u := range wl.Users {
		if err := enc.Encode(userRecord{recordUser, u.Name, u.UID, u.Group, u.GID, u.Groups}); err != nil {
			return err
		}
	}
	for _, e := range wl.NodeEvents {
		if err := enc.Encode(nodeRecord{recordNode, jobjson.InstantOf(e.At), e.Nodes, e.State, e.Reason}); err != nil {
			return err
		}
	}
	for _, e := range wl.Reservations {
		if err := enc.Encode(newReservationRecord(e)); err != nil {
			return err
		}
	}
	for _, a := range wl.Actions {
		if err := enc.Encode(actionRecord{recordAction, jobjson.InstantOf(a.At), a.Run, a.Shell, a.SlurmConf}); err != nil {
			return err
		}
	}
	for _, u := range wl.Usage {
		if err := enc.Encode(usageRecord{recordUsage, u.Account, u.User, u.Raw}); err != nil {
			return err
		}
	}
	var line []byte
	for i, job := range wl.Jobs.All() {
		line = appendJob(line[:0], job, wl.Jobs.Origin(i))
		if _, err := out.Write(line); err != nil {
			return fmt.Errorf("job %s: %w", job.ID, err)
		}
	}
	for _, u := range wl.Unusable {
		if err := enc.Encode(unusableRecord{recordUnusable, u.Record, u.Rule, u.Text}); err != nil {
			return err
		}
	}
	return nil
}

func newReservationRecord(e hpc.ReservationEvent) reservationRecord {
	return reservationRecord{
		Type: recordReservation, At: jobjson.InstantOf(e.At), Action: e.Action, Name: e.Name,
		Start: jobjson.InstantOf(e.Start), Duration: jobjson.Seconds(e.Duration),
		Nodes: e.Nodes, NodeCount: e.NodeCount, Partition: e.Partition,
		Users: e.Users, Accounts: e.Accounts, Flags: e.Flags,
		Licenses: e.Licenses, Features: e.Features,
	}
}

// jobPrefix is the beginning of the line of a job.
var jobPrefix = []byte(`{"type":"job",`)

// appendJob appends the line of a job.
func appendJob(b []byte, job *hpc.Job, origin workload.Origin) []byte {
	b = jobjson.AppendFields(append(b, jobPrefix...), job)
	if origin != (workload.Origin{}) {
		b = swf.AppendKept(append(b, `,"swf":`...), origin)
	}
	return append(b, "}\n"...)
}
