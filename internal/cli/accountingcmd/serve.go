package accountingcmd

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rmreplay/internal/accounting/service"
	"rmreplay/internal/cli/console"
	"rmreplay/internal/flags"
)

func (o commands) serve() *cobra.Command {
	var opts service.Serve
	var listen string
	c := &cobra.Command{
		Use:   "serve (DIR | --run RUN... | --store elasticsearch --url URL)",
		Short: "Receive finished jobs from Slurm, and answer searches",
		Long: `Receives finished jobs until it is interrupted. slurm.conf on the cluster needs

  JobCompType=jobcomp/elasticsearch
  JobCompLoc=http://HOST:9200/NAME/_doc

NAME is a name in lower case, preferably that of the cluster. A job whose document names
no cluster gets NAME as its cluster. Without slurmdbd, no document names a cluster.

The server acknowledges a job when the job is on disk, so acknowledged jobs survive a
crash. It keeps every document unchanged; defective documents are marked and counted. A
job that is sent twice is stored once.

--auth names a file with one line for each credential, ROLE USER PASSWORD or ROLE token
TOKEN, where ROLE is ingest, read or all. Other users must not be able to read the file.
Slurm takes user and password in JobCompLoc: http://USER:PASSWORD@HOST:9200/NAME/_doc.
Many sites let all users read slurm.conf, so write a credential of the role ingest there.

Without --auth the server listens on the loopback interface only, unless --open is given.
At its start, and then once a day, the server removes the jobs that ended longer ago than
--retention. It prints how many jobs it removed.

--run shows a run of rmreplay in the pages, as a cluster; repeat the flag for several
runs. The server makes a data directory for the runs, and removes it at the end. Such a
server does not receive jobs. To show runs beside production, add them with accounting
import.

--forward names an Elasticsearch or OpenSearch cluster: http(s)://HOST:PORT or
http(s)://HOST:PORT/INDEX. The server sends every document on to this cluster, which then
has each document once. While the cluster does not answer, documents wait in the data
directory. --forward-auth names a file with the credentials: USER:PASSWORD, "ApiKey KEY"
or "Bearer TOKEN". Other users must not be able to read the file.

With --store elasticsearch the pages show the jobs in an index of an Elasticsearch or
OpenSearch cluster (--url http(s)://HOST:PORT/INDEX), also jobs that Slurm's own plugin
sent there. --url-auth names a file with the credentials, as --forward-auth does. With
--data, the server also receives and imports jobs, and sends them on to that index.
Without --data the server does not receive jobs, and INDEX may be a list with commas and
asterisks.

--kafka also reads the jobs that jobcomp/kafka sends to a topic (Slurm 23.02 and later).
A message's offset is committed when its document is on disk. While the server does not
run, messages wait at the brokers. Jobs whose documents do not name a cluster get the
topic's name. --kafka-config names a file of librdkafka's properties, like the file of
jobcomp/kafka: security.protocol, sasl.* and ssl.* say how to reach the brokers.

--sdiag CLUSTER=COMMAND runs Slurm's sdiag every --sdiag-every and keeps its figures:
how long the cycles of the main and backfill scheduler took, how many jobs they
considered and why they ended, the lengths of queues, and requests. The page /_ui/health
charts the figures. COMMAND is the path of sdiag, with options that choose the cluster
if necessary: vale="sdiag -M vale". While slurmctld does not answer, the figures have a
gap. Once an hour the server runs COMMAND with sinfo in place of sdiag to learn the size
of the cluster, so that utilization is in per cent. The flag may be repeated.`,
		Example: `  rmreplay accounting serve /var/lib/rmreplay
  rmreplay accounting serve --run today --run what-if
  rmreplay accounting serve /var/lib/rmreplay --listen 0.0.0.0:9200 \
    --auth /etc/rmreplay/access --tls-cert server.pem --tls-key server.key \
    --retention 400d
  rmreplay accounting serve /var/lib/rmreplay --kafka kafka1,kafka2:9092/vale
  rmreplay accounting serve /var/lib/rmreplay --sdiag vale=/usr/bin/sdiag
  rmreplay accounting serve --store elasticsearch --url https://es.example:9200/slurm`,
		Args: wantDirectory,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				opts.Data = args[0]
			}
			opts.Listen = strings.Split(listen, ",")
			if err := o.checkServe(&opts); err != nil {
				return err
			}
			return withStatus(work.Serve(c.Context(), opts, o.Say))
		},
	}
	addServeFlags(c, &opts, &listen)
	return c
}

// withStatus marks an error about invalid options as an error of usage, an error about a run as one of the input, and
// an error about a missing program as one of the machine.
func withStatus(err error) error {
	var wrong *service.UsageError
	if errors.As(err, &wrong) {
		return console.Usagef("%w", err)
	}
	var input *service.InputError
	if errors.As(err, &input) {
		return console.BadInput(err)
	}
	var missing *service.MissingError
	if errors.As(err, &missing) {
		return console.Missing(err)
	}
	return err
}

// wantDirectory accepts one argument, the data directory, or no argument. With --data it accepts no
// argument.
func wantDirectory(c *cobra.Command, args []string) error {
	if len(args) > 0 && c.Flags().Changed("data") {
		return fmt.Errorf("%q: --data names the data directory already", args[0])
	}
	return console.WantArgs([]string{"DIR"}[:min(1, len(args))]...)(c, args)
}

func addServeFlags(c *cobra.Command, opts *service.Serve, listen *string) {
	f := c.Flags()
	f.StringVar(&opts.Data, "data", "", "the data directory `DIR`, in place of the argument; it is made if it does not exist")
	f.StringArrayVar(&opts.Runs, "run", nil, "show this `RUN` in the pages, without a data directory; may be repeated")
	f.StringVar(listen, "listen", "127.0.0.1:9200", "`ADDRESS` to listen on; several are separated by commas")
	f.StringVar(&opts.Auth, "auth", "", "`FILE` of credentials")
	f.StringVar(&opts.TLSCert, "tls-cert", "", "`FILE` with the server's certificate and the certificates that signed "+
		"it (PEM)")
	f.StringVar(&opts.TLSKey, "tls-key", "", "`FILE` with the certificate's key (PEM)")
	f.BoolVar(&opts.Open, "open", false, "let everybody who reaches the server read and send jobs")
	f.StringVar(&opts.ClusterName, "cluster-name", "", "`NAME` of the cluster, for jobs whose documents name no cluster "+
		"(default: the name of the index)")
	flags.Days(f, &opts.Retention, "retention", 0, "`DURATION` for which ended jobs are kept, such as 400d; 0 for ever")
	f.StringVar(&opts.Forward, "forward", "", "`URL` of an Elasticsearch or OpenSearch cluster that gets every "+
		"document, too")
	f.StringVar(&opts.ForwardAuth, "forward-auth", "", "`FILE` with the credentials for --forward")
	f.StringVar(&opts.Store, "store", service.Embedded,
		"`STORE` from which the pages read jobs: embedded or elasticsearch")
	f.StringVar(&opts.URL, "url", "", "`URL` of the index for --store elasticsearch")
	f.StringVar(&opts.URLAuth, "url-auth", "", "`FILE` with the credentials for --url")
	f.StringVar(&opts.Kafka, "kafka", "", "`BROKERS/TOPIC` to read jobs from: HOST[:PORT],.../TOPIC")
	f.StringVar(&opts.KafkaConfig, "kafka-config", "", "`FILE` with security.protocol, sasl.* and ssl.* for --kafka")
	f.StringArrayVar(&opts.Sdiag, "sdiag", nil, "keep the figures of CLUSTER's slurmctld: `CLUSTER=COMMAND`, "+
		"where COMMAND is sdiag; may be repeated")
	flags.Duration(f, &opts.SdiagEvery, "sdiag-every", time.Minute, "`DURATION` between two runs of sdiag")
	flags.Days(f, &opts.SdiagKeep, "sdiag-keep", 400*24*time.Hour,
		"`DURATION` for which sdiag's figures are kept; 0 for ever")
	flags.Memory(f, &opts.MemoryMiB, "memory", 512, "`MIB` of memory, or an amount such as 4G, for all processes that "+
		"answer queries; the server itself takes up to 256 MiB more")
}

// minMemory is the smallest value of --memory, in MiB.
const minMemory = 64

// checkServe returns an error for invalid values of flags, and for flags that contradict each other.
func (o commands) checkServe(opts *service.Serve) error {
	switch {
	case opts.Retention < 0:
		return console.Usagef("--retention %v: negative (want a duration, or 0 for ever)", opts.Retention)
	case opts.SdiagKeep < 0:
		return console.Usagef("--sdiag-keep %v: negative (want a duration, or 0 for ever)", opts.SdiagKeep)
	case opts.MemoryMiB < minMemory:
		return console.Usagef("--memory %d: too little for queries (want at least %d)", opts.MemoryMiB, minMemory)
	}
	if (opts.TLSCert == "") != (opts.TLSKey == "") {
		return console.Usagef("--tls-cert and --tls-key need each other")
	}
	if err := o.checkStore(opts); err != nil {
		return err
	}
	if opts.Forward != "" && opts.Data == "" {
		return console.Usagef("--forward needs --data")
	}
	if opts.Kafka != "" && opts.Data == "" {
		return console.Usagef("--kafka needs --data")
	}
	if opts.KafkaConfig != "" && opts.Kafka == "" {
		return console.Usagef("--kafka-config needs --kafka")
	}
	if opts.ForwardAuth != "" && opts.Forward == "" {
		return console.Usagef("--forward-auth needs --forward")
	}
	return nil
}

// checkStore returns an error for contradictory flags about where the jobs are stored.
func (o commands) checkStore(opts *service.Serve) error {
	switch opts.Store {
	case service.Embedded:
		if opts.URL != "" || opts.URLAuth != "" {
			return console.Usagef("--url and --url-auth need --store elasticsearch")
		}
		if (opts.Data == "") == (len(opts.Runs) == 0) {
			return console.Usagef("it is not clear which jobs to show (want either DIR or --run RUN)")
		}
	case service.Elasticsearch:
		switch {
		case opts.URL == "":
			return console.Usagef("--store elasticsearch needs --url")
		case len(opts.Runs) > 0:
			return console.Usagef("--run shows runs, and --store elasticsearch shows the jobs of a cluster: want one of these flags")
		case opts.Forward != "":
			return console.Usagef("--store elasticsearch sends jobs to --url already: want no --forward")
		}
	default:
		return console.Usagef("--store %q: want embedded or elasticsearch", opts.Store)
	}
	return nil
}
