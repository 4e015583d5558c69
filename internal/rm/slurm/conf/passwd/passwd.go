// Package passwd reads a cluster's users from copies of its passwd and group files.
package passwd

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"rmreplay/internal/hpc"
)

// Read reads users from files in the form of /etc/passwd and /etc/group, with their supplementary
// groups. The function read returns the contents of a file. The result is nil if there is no
// passwd file.
func Read(passwd, group string, read func(path string) ([]byte, error)) ([]hpc.User, error) {
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
	further := make(map[string][]string) // supplementary groups by user
	for _, g := range groups {
		if len(g.fields) > 3 {
			for name := range strings.SplitSeq(g.fields[3], ",") {
				further[name] = append(further[name], g.fields[0])
			}
		}
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
		for _, name := range further[u.Name] {
			if err := hpc.CheckUserName(name); err != nil {
				return nil, fmt.Errorf("%s: group %w", group, err)
			}
			if name != u.Group {
				u.Groups = append(u.Groups, name)
			}
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

func readColons(path string, atLeast int, read func(path string) ([]byte, error)) ([]colonLine, error) {
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
			return nil, fmt.Errorf("%s: %.60q: want name:x:id:… as in /etc/%s", l.at, text, filepath.Base(path))
		}
		lines = append(lines, l)
	}
	return lines, nil
}
