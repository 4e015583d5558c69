package conf

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/conf/passwd"
	"rmreplay/internal/workload"
)

// readUsers reads the users of a cluster directory from users or users.sim, or else from passwd
// with group. The result is nil if no such file exists.
func readUsers(dir string, read reader) ([]hpc.User, error) {
	for _, name := range usersFiles {
		path := filepath.Join(dir, name)
		data, err := read(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return workload.ParseUsers(bytes.NewReader(data), path)
	}
	return passwd.Read(filepath.Join(dir, "passwd"), filepath.Join(dir, "group"), read)
}

// AccountCommands returns the commands for `sacctmgr -i` that fill an empty database for the
// cluster. madeUp is set if the cluster directory has no commands and AccountCommands made them
// up. The made-up commands put each user of the directory and of others into an account named
// after the user's group. All shares are equal, and there are no limits.
func (c *Cluster) AccountCommands(others []hpc.User) (commands []byte, madeUp bool) {
	if c.Accounts != nil {
		return c.Accounts, false
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "add cluster Name=%s\n", c.Name)
	accounts, people := make(map[string]bool), make(map[string]bool)
	for _, list := range [][]hpc.User{c.Users, others} {
		for _, u := range list {
			account := strings.ToLower(u.Group)
			if account == "" {
				account = "default"
			}
			if !accounts[account] && account != "root" { // the account root already exists
				accounts[account] = true
				fmt.Fprintf(&b, "add account Name=%s Cluster=%s Fairshare=1\n", account, c.Name)
			}
			if !people[u.Name] {
				people[u.Name] = true
				fmt.Fprintf(&b, "add user Name=%s Cluster=%s Account=%s DefaultAccount=%s Fairshare=1\n", u.Name, c.Name, account, account)
			}
		}
	}
	return b.Bytes(), true
}
