package conf

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
)

// readUsers reads the users of a cluster directory from users or users.sim, or else from passwd
// with group. The result is nil if there is no such file.
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
	return readPasswd(filepath.Join(dir, "passwd"), filepath.Join(dir, "group"), read)
}

// readPasswd reads users from files in the form of /etc/passwd and /etc/group.
func readPasswd(passwd, group string, read reader) ([]hpc.User, error) {
	people, err := readColons(passwd, 4, read)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	groups, err := readColons(group, 3, read)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w (passwd needs a group file beside it)", err)
	}
	if err != nil {
		return nil, err
	}
	names := make(map[uint32]string)
	for _, g := range groups {
		gid, err := g.id(2)
		if err != nil {
			return nil, err
		}
		if _, known := names[gid]; !known {
			names[gid] = g.fields[0]
		}
	}
	var users []hpc.User
	for _, p := range people {
		u, err := passwdUser(p, names, group)
		if err != nil {
			return nil, err
		}
		users = append(users, u)
	}
	return users, nil
}

func passwdUser(p colonLine, groups map[uint32]string, groupFile string) (hpc.User, error) {
	uid, err := p.id(2)
	if err != nil {
		return hpc.User{}, err
	}
	gid, err := p.id(3)
	if err != nil {
		return hpc.User{}, err
	}
	name, ok := groups[gid]
	if !ok {
		return hpc.User{}, fmt.Errorf("%s: user %s: group %d is not in %s", p.at, p.fields[0], gid, groupFile)
	}
	for _, name := range []string{p.fields[0], name} {
		if err := hpc.CheckUserName(name); err != nil {
			return hpc.User{}, fmt.Errorf("%s: name %w", p.at, err)
		}
	}
	return hpc.User{Name: p.fields[0], UID: uid, Group: name, GID: gid}, nil
}

// colonLine is one line of a passwd or group file.
type colonLine struct {
	at     string // file:line
	fields []string
}

func (l colonLine) id(field int) (uint32, error) {
	n, err := strconv.ParseUint(l.fields[field], 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%s: %q: not a numeric id", l.at, l.fields[field])
	}
	return uint32(n), nil
}

func readColons(path string, atLeast int, read reader) ([]colonLine, error) {
	data, err := read(path)
	if err != nil {
		return nil, err
	}
	var lines []colonLine
	number := 0
	for text := range strings.Lines(string(data)) {
		number++
		text = strings.TrimSpace(text)
		if text == "" || text[0] == '#' {
			continue
		}
		l := colonLine{fmt.Sprintf("%s:%d", path, number), strings.Split(text, ":")}
		if len(l.fields) < atLeast || l.fields[0] == "" {
			return nil, fmt.Errorf("%s: %q: want name:x:id:… as in /etc/%s", l.at, shorten(text), filepath.Base(path))
		}
		lines = append(lines, l)
	}
	return lines, nil
}

// AccountCommands returns the commands for `sacctmgr -i` that fill an empty database for the
// cluster. madeUp says that the cluster directory has no commands. The made-up commands give each
// user of the directory and of others an account named after the user's group, with equal shares
// and no limits.
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
			if !accounts[account] && account != "root" { // the account root always exists
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
