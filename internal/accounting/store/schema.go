package store

import (
	"fmt"
	"strings"
)

// SchemaVersion is the version of the tables. A store of an older version is brought up to date when
// it is opened for writing; a newer one is refused.
const SchemaVersion = 3

// migrations are the statements that make the tables of each version from those of the version before
// it, from version 2 on. They run in one transaction.
var migrations = [][]string{
	nil, // to version 2: its rollups, which version 3 makes again
	remakeRollups("busy"),
}

// remakeRollups returns the statements that make the rollups' tables again, where some rollups have gone or
// have changed. Their cells are counted again by [Store.RollUp].
func remakeRollups(gone ...string) (statements []string) {
	statements = append(statements, "DROP TABLE IF EXISTS days")
	for _, name := range append(rollupNames(), gone...) {
		statements = append(statements, "DROP TABLE IF EXISTS daily_"+name)
	}
	return append(statements, rollupTables()...)
}

// schema returns the statements that make the tables of an empty store.
//
// No table has an index: DuckDB keeps the least and the greatest value of each column for every
// 122,880 rows, and rows come roughly in the order of seq and of end_time. An index of ten million
// keys would cost more memory than all other data.
func schema() []string {
	var jobs strings.Builder
	jobs.WriteString("CREATE TABLE jobs (\n")
	for _, c := range Columns {
		fmt.Fprintf(&jobs, "  %s %s,\n", c.Name, c.Type)
	}
	jobs.WriteString("  id VARCHAR GENERATED ALWAYS AS (" + idExpression + ") VIRTUAL\n)")
	return append([]string{
		jobs.String(),
		// documents has each job's document as it came. A scan of jobs does not touch it.
		`CREATE TABLE documents (seq BIGINT NOT NULL, document BLOB NOT NULL)`,
		// superseded has documents that were replaced by later ones about the same run of the same
		// job. by is the number of the job's row.
		`CREATE TABLE superseded (seq BIGINT NOT NULL, "by" BIGINT NOT NULL, document BLOB NOT NULL)`,
		// counts has how often something happened: a rule of package document, or "duplicate",
		// "replaced", "kept_received".
		`CREATE TABLE counts (rule VARCHAR NOT NULL PRIMARY KEY, documents BIGINT NOT NULL)`,
		// clusters has what is known of clusters and runs beside their jobs.
		`CREATE TABLE clusters (cluster VARCHAR NOT NULL PRIMARY KEY, kind VARCHAR NOT NULL, nodes BIGINT, cpus BIGINT, gpus BIGINT, description VARCHAR)`,
		// applied has one row: the last arrival that the tables have, and their version.
		`CREATE TABLE applied (seq BIGINT NOT NULL, version BIGINT NOT NULL)`,
		fmt.Sprintf(`INSERT INTO applied VALUES (0, %d)`, SchemaVersion),
	}, rollupTables()...) // days, and the tables of each [Rollup]
}

const idExpression = "cluster || ':' || jobid || ':' || run"
