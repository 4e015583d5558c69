package output

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// Owned returns an error if a directory or file exists and belongs to another user than this
// process. It is for a service's state directory. Root could write there, but the owner's own
// service could not read root's files afterwards.
func Owned(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	own := os.Geteuid()
	if is, known := info.Sys().(*syscall.Stat_t); known && int(is.Uid) != own {
		return fmt.Errorf("%s belongs to the user with the ID %d, and this process runs as user %d "+
			"(want the program run by the owner, or a new owner: chown -R %d %s)", path, is.Uid, own, own, path)
	}
	return nil
}
