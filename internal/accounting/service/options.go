package service

import (
	"time"

	"rmreplay/internal/flags"
	"rmreplay/internal/hpc"
)

// Serve is what `accounting serve` does.
type Serve struct {
	Data        string   // data directory; "" with Runs
	Runs        []string // run records to show, from a data directory that is removed at the end
	Listen      []string // addresses, host:port
	Auth        string   // file of credentials; empty for none
	TLSCert     string   // PEM files; empty for plain HTTP
	TLSKey      string
	ClusterName string
	Retention   time.Duration // 0 keeps jobs for ever
	MemoryMiB   int
	Forward     string        // URL of a cluster that gets every document, too; empty for none
	ForwardAuth string        // file with its credentials
	Store       string        // what the pages are about: Embedded or Elasticsearch
	URL         string        // of the index, with Elasticsearch
	URLAuth     string        // file with credentials for URL; empty for none
	Kafka       string        // BROKER,BROKER.../TOPIC of jobcomp/kafka; empty for none
	KafkaConfig string        // file of librdkafka's properties that say how brokers are reached; empty for plain
	Sdiag       []string      // CLUSTER=COMMAND of slurmctlds whose scheduling is watched
	SdiagEvery  time.Duration // between two questions
	SdiagKeep   time.Duration // 0 keeps figures for ever
	Open        bool          // listen on other addresses than loopback without credentials
}

// What the pages of a server are about.
const (
	Embedded      = "embedded"      // the jobs in the data directory
	Elasticsearch = "elasticsearch" // those in an index of a cluster
)

// Records are accounting records, or runs.
type Records struct {
	Sources     []string // files, directories, runs, or one database
	From        string   // kind of the sources, as of `workload build`; "auto" recognizes records and runs
	ClusterName string   // for records that do not name theirs, and for runs
	Password    string   // of the database
	Start, End  hpc.Time // jobs that were in the cluster between them; 0 for no bound
	Zone        flags.Zone
}

// Imported is what became of records.
type Imported struct {
	Records   int            `json:"records"`
	Added     int            `json:"added"`
	Duplicate int            `json:"duplicate"`     // the directory had the same record
	Replaced  int            `json:"replaced"`      // an earlier import's record that differed
	Kept      int            `json:"kept_received"` // jobs that Slurm itself had sent
	Rules     map[string]int `json:"rules"`         // rules that records broke, and decisions
	Mistake   string         `json:"first_mistake,omitempty"`
	// Unnamed counts the documents in the directory, from before, that name no cluster. They stand under the
	// name of their index, so records of their jobs may have been added beside them.
	Unnamed int64 `json:"without_cluster"`
	// Unreported names the runs for which the pages have no report, and says why.
	Unreported []string `json:"without_report,omitempty"`
}

// Reconciled is the comparison of records with a data directory.
type Reconciled struct {
	Records   int          `json:"records"`
	Equal     int          `json:"equal"`
	Missing   []string     `json:"missing"` // ids of jobs that the directory does not have
	Differing []Difference `json:"differing"`
	Unknown   int          `json:"only_received"` // jobs of the same time that the records do not have
	Filled    int          `json:"filled"`
	// Shifted counts the missing jobs that the directory has at another hour, if most are missing.
	Shifted int `json:"at_another_hour"`
	// Unnamed counts the jobs, of those that are equal or differ, whose documents name no cluster.
	Unnamed int `json:"without_cluster"`
}

// Difference is a field in which a record and a job differ.
type Difference struct {
	Job      string `json:"id"`
	Field    string `json:"field"`
	Recorded string `json:"recorded"`
	Received string `json:"received"`
}

// Export is what `accounting export` writes.
type Export struct {
	Output      string
	Format      string   // of ExportFormats
	ClusterName string   // empty for all
	Start, End  hpc.Time // of the jobs' ends, or for a workload of its window; 0 for no bound
	Where       string   // a condition in SQL
}

// ExportFormats are the formats of Export. trace and swf are workloads.
var ExportFormats = []string{"parquet", "csv", "trace", "swf"}

// Exported is what was written.
type Exported struct {
	Output  string         `json:"output"`
	Jobs    int64          `json:"jobs"`
	Rules   map[string]int `json:"rules,omitempty"`
	Missing []string       `json:"missing,omitempty"`
}

// Info is what a data directory holds.
type Info struct {
	Jobs          int64            `json:"jobs"`
	FirstEnd      *time.Time       `json:"first_end"`
	LastEnd       *time.Time       `json:"last_end"`
	Clusters      map[string]int64 `json:"jobs_by_cluster"`
	Sources       map[string]int64 `json:"jobs_by_source"`
	Counts        map[string]int64 `json:"counts"` // documents by rule
	Received      int64            `json:"received"`
	Applied       int64            `json:"applied"`
	JournalBytes  int64            `json:"journal_bytes"`
	DatabaseBytes int64            `json:"database_bytes"`
	SchemaVersion int              `json:"schema_version"`
	PID           int              `json:"pid"` // of the process that has the directory open
	Fault         string           `json:"fault,omitempty"`
}

// Verified is what was found by reading a whole data directory.
type Verified struct {
	Parts    int      `json:"parts"`
	Jobs     int64    `json:"jobs"`
	Bytes    int64    `json:"bytes"`
	Problems []string `json:"problems"`           // what is wrong, and where
	Migrated string   `json:"migrated,omitempty"` // what was found when an older directory was migrated
}

// Remove is what `accounting remove` removes, or what `accounting anonymize` does not remove but anonymizes.
type Remove struct {
	Users       []string
	As          string   // what the users of anonymized jobs are called; empty to remove the jobs
	ClusterName string   // empty for all
	Start, End  hpc.Time // of the jobs' ends; 0 for no bound
	DryRun      bool     // only count the jobs
}

// Removed is how many jobs were removed or anonymized, or would be.
type Removed struct {
	Jobs   int64 `json:"jobs"`
	DryRun bool  `json:"dry_run,omitempty"`
}

// UsageError says that the options of a command make no sense, such as an invalid URL.
type UsageError struct{ Err error }

// Error returns the text of the wrapped error.
func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *UsageError) Unwrap() error { return e.Err }

// usage makes a [UsageError] of an error; nil stays nil.
func usage(err error) error {
	if err == nil {
		return nil
	}
	return &UsageError{err}
}
