package duckdb

import (
	"fmt"
	"path/filepath"
	"strings"

	"rmreplay/internal/accounting/engine/wire"
)

// statements returns the SQL that configures a new database. With these settings, queries cannot
// open files outside the given directories, load extensions, or change settings.
func statements(s wire.Settings) []string {
	list := []string{
		fmt.Sprintf("SET memory_limit = '%dMiB'", s.MemoryMiB),
		"SET autoinstall_known_extensions = false",
		"SET autoload_known_extensions = false",
		"SET allow_community_extensions = false",
		"SET TimeZone = 'UTC'",
		// The store never changes a Parquet file, so cached footers stay valid.
		"SET parquet_metadata_cache = true",
		"SET temp_directory = " + quote(s.Temp),
	}
	if s.Threads > 0 {
		list = append(list, fmt.Sprintf("SET threads = %d", s.Threads))
	}
	if s.Temp != "" {
		list = append(list, fmt.Sprintf("SET max_temp_directory_size = '%dMiB'", s.TempMiB))
	}
	if s.Attach != "" {
		list = append(list, fmt.Sprintf("ATTACH %s AS old (READ_ONLY)", quote(s.Attach)))
	}
	dirs := make([]string, len(s.Dirs))
	for i, dir := range s.Dirs {
		dirs[i] = quote(filepath.Clean(dir) + "/")
	}
	return append(list,
		fmt.Sprintf("SET allowed_directories = [%s]", strings.Join(dirs, ", ")),
		"SET enable_external_access = false",
		"SET lock_configuration = true")
}

func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
