package service

import (
	"time"

	"rmreplay/internal/flags"
	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
)

// Serve are the options of `accounting serve`.
type Serve struct {
	Data        string   // data directory; empty with Runs
	Runs        []string // run records to show; their data directory is temporary
	Listen      []string // addresses, host:port
	Auth        string   // file of credentials; empty to serve without authentication
	TLSCert     string   // PEM files; empty for plain HTTP
	TLSKey      string
	ClusterName string
	Retention   time.Duration // 0 keeps jobs for ever
	MemoryMiB   int
	Forward     string        // URL of a cluster to which every document is forwarded; may be empty
	ForwardAuth string        // file with its credentials
	Store       string        // where the pages' jobs are: Embedded or Elasticsearch
	URL         string        // URL of the index, if Store is Elasticsearch
	URLAuth     string        // file with credentials for URL; may be empty
	Kafka       string        // BROKER,BROKER.../TOPIC of jobcomp/kafka; may be empty
	KafkaConfig string        // file of librdkafka's properties for connecting to brokers; may be empty
	Sdiag       []string      // CLUSTER=COMMAND for schedulers to observe with sdiag
	SdiagEvery  time.Duration // interval between two runs of sdiag
	SdiagKeep   time.Duration // 0 keeps figures for ever
	Open        bool          // allows other addresses than loopback without credentials
}

// The values of [Serve.Store]. They say where the jobs are that the pages show.
const (
	Embedded      = "embedded"      // the jobs in the data directory
	Elasticsearch = "elasticsearch" // an index of a cluster
)

// Records says where accounting records or runs are.
type Records struct {
	Sources     []string // files, directories, runs, or one database
	From        string   // kind of the sources, as in `workload build`; "auto" recognizes records and runs
	ClusterName string   // cluster of runs, and of records that do not name a cluster
	Password    string   // password of the database
	Live        bool     // accept runs that are still going on, because the store is temporary
	Start, End  hpc.Time // only jobs that were pending or running in this interval; 0 means no limit
	Zone        flags.Zone
}

// Imported says what happened to the records.
type Imported struct {
	Records   int            `json:"records"`
	Added     int            `json:"added"`
	Duplicate int            `json:"duplicate"`     // the directory already had the record
	Replaced  int            `json:"replaced"`      // a different record of an earlier import was replaced
	Kept      int            `json:"kept_received"` // Slurm itself had sent the job
	Rules     map[string]int `json:"rules"`         // how often each rule was broken, and each decision made
	Mistake   string         `json:"first_mistake,omitempty"`
	// NoCluster counts the records for which neither they nor the options name a cluster. They are stored under the
	// name of their index.
	NoCluster int `json:"no_cluster"`
	// NoClusterBefore counts the documents that were in the directory and do not name a cluster. They are
	// stored under the name of their index, so their jobs may now be in the directory twice.
	NoClusterBefore int64 `json:"no_cluster_before"`
	// Mixed counts the jobs that were in the clusters of the imported runs before. If they are of other runs, the
	// clusters are now mixtures.
	Mixed int64 `json:"jobs_before_runs"`
	// Unreported names the runs for which the pages have no report, with the reasons.
	Unreported []string `json:"without_report,omitempty"`
}

// Reconciled is the result of comparing records with a data directory.
type Reconciled struct {
	Records   int          `json:"records"`
	Equal     int          `json:"equal"`
	Missing   []string     `json:"missing"` // ids of jobs that are not in the directory
	Differing []Difference `json:"differing"`
	Unknown   int          `json:"only_received"` // jobs of the same period that are in the directory but have no record
	Filled    int          `json:"filled"`
	// Shifted counts missing jobs that are in the directory with dates that differ by the offset of
	// a time zone. It is 0 unless the directory lacks most of the jobs.
	Shifted int `json:"at_another_hour"`
	// NoCluster counts the equal or differing jobs whose documents do not name a cluster.
	NoCluster int `json:"no_cluster"`
}

// Difference is a field that differs between a record and the directory.
type Difference struct {
	Job      string `json:"id"`
	Field    string `json:"field"`
	Recorded string `json:"recorded"`
	Received string `json:"received"`
}

// Export are the options of `accounting export`.
type Export struct {
	Output      string
	Format      string   // one of ExportFormats
	ClusterName string   // empty for all clusters
	Start, End  hpc.Time // limits of the jobs' ends, or a workload's window; 0 means no limit
	Where       string   // SQL condition; may be empty
}

// ExportFormats are the formats of Export. trace and swf are workloads.
var ExportFormats = []string{"parquet", "csv", "trace", "swf"}

// Exported describes what was written.
type Exported struct {
	Output  string         `json:"output"`
	Jobs    int64          `json:"jobs"`
	Rules   map[string]int `json:"rules,omitempty"`
	Missing []string       `json:"missing,omitempty"`
	// Records counts the records in the data directory by their use in a workload, and Losses what the
	// format of the workload cannot hold. Counted is the number of jobs in words, with the tasks of arrays.
	Records *workload.Rows  `json:"records,omitempty"`
	Losses  workload.Losses `json:"losses,omitempty"`
	Counted string          `json:"-"`
	// Absent names texts of [Export.Where] that no job has, if no job matches; see [transform.Compared.Absent].
	Absent string `json:"-"`
}

// Info describes the contents of a data directory.
type Info struct {
	Jobs     int64            `json:"jobs"`
	FirstEnd *time.Time       `json:"first_end"`
	LastEnd  *time.Time       `json:"last_end"`
	Clusters map[string]int64 `json:"jobs_by_cluster"`
	Sources  map[string]int64 `json:"jobs_by_source"`
	Counts   map[string]int64 `json:"counts"` // number of documents per rule that they broke
	// Doubts maps the names of the runs that are not valid to the reasons.
	Doubts        map[string]string `json:"not_valid_runs,omitempty"`
	Received      int64             `json:"received"`
	Applied       int64             `json:"applied"`
	JournalBytes  int64             `json:"journal_bytes"`
	DatabaseBytes int64             `json:"database_bytes"`
	SchemaVersion int               `json:"schema_version"`
	PID           int               `json:"pid"` // id of the process that has the directory open
	Fault         string            `json:"fault,omitempty"`
}

// Verified is the result of verifying a data directory.
type Verified struct {
	Parts    int      `json:"parts"`
	Jobs     int64    `json:"jobs"`
	Bytes    int64    `json:"bytes"`
	Problems []string `json:"problems"`           // each says what is wrong, and where
	Migrated string   `json:"migrated,omitempty"` // result of the migration of an older directory
}

// Remove are the options of `accounting remove` and of `accounting anonymize`.
type Remove struct {
	Users       []string
	As          string   // new name of the users of anonymized jobs; empty to remove the jobs
	ClusterName string   // empty for all clusters
	Start, End  hpc.Time // limits of the jobs' ends; 0 means no limit
	DryRun      bool     // only counts the jobs
}

// Removed is the number of jobs that were removed or anonymized. With DryRun, it is the number of jobs that the
// command would remove or anonymize.
type Removed struct {
	Jobs   int64 `json:"jobs"`
	DryRun bool  `json:"dry_run,omitempty"`
}

// UsageError says that a command's options are invalid, for example a URL.
type UsageError struct{ Err error }

// Error returns the text of the wrapped error.
func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *UsageError) Unwrap() error { return e.Err }

// InputError says that a run that a command shows is missing or wrong.
type InputError struct{ Err error }

// Error returns the text of the wrapped error.
func (e *InputError) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *InputError) Unwrap() error { return e.Err }

// MissingError says that a program is missing on this machine.
type MissingError struct{ Err error }

// Error implements the interface error.
func (e *MissingError) Error() string { return e.Err.Error() }

// Unwrap returns the error with its context.
func (e *MissingError) Unwrap() error { return e.Err }

// usage wraps an error in a [UsageError]; nil stays nil.
func usage(err error) error {
	if err == nil {
		return nil
	}
	return &UsageError{err}
}
