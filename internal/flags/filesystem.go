package flags

import (
	"strings"

	"github.com/spf13/pflag"

	"rmreplay/internal/hpc"
)

// fileSystems is the value of a flag that may be repeated.
type fileSystems struct{ list *[]hpc.FileSystem }

func (s fileSystems) String() string {
	if s.list == nil {
		return ""
	}
	names := make([]string, len(*s.list))
	for i, f := range *s.list {
		names[i] = f.Name
	}
	return strings.Join(names, ",")
}

func (s fileSystems) Type() string { return "stringArray" }

func (s fileSystems) Set(text string) error {
	f, err := hpc.ParseFileSystem(text)
	if err == nil {
		*s.list = append(*s.list, f)
	}
	return err
}

// FileSystems adds the flag that gives the bandwidths of the file systems that jobs share.
func FileSystems(f *pflag.FlagSet, to *[]hpc.FileSystem) {
	f.Var(fileSystems{to}, "filesystem", "file system and its `BANDWIDTH`, such as lustre=200MiB/s; limit=RATE and "+
		"licenses=N, after commas, are for policies that use them (may be repeated)")
}
