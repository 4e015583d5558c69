package admission

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/associations"
	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/slurmspec"
)

// Site is the set of a cluster's rules about submissions.
type Site struct {
	cluster *conf.Cluster
	release slurmspec.Release

	partitions map[string]*partition
	standard   *partition // the default partition, or nil
	enforce    enforcement

	accounts *associations.Set // nil without accounting
	// The parts of AccountingStorageEnforce.
	associations, limits, safe, qos, wckeys bool
	trackWCKey                              bool
	perUser                                 map[userKey]*associations.Association
	standing                                map[*associations.Association]*standing
	users                                   map[string]hpc.User

	linear, consTRES, countsMemory bool
	licenses                       map[string]int64
	zeroLicenses                   bool // SchedulerParameters=allow_zero_lic
	features                       map[string]bool
	anyFeature, anyPrefer          bool // SchedulerParameters=ignore_*_validation
	gres                           map[string]bool
	maxArray, maxTasks             int
}

// enforcement is EnforcePartLimits.
type enforcement int

const (
	enforceNone enforcement = iota
	enforceAny
	enforceAll
)

type userKey struct{ user, account, partition string }

// Options say how a replay differs from the site's configuration.
type Options struct {
	// Release is the release of Slurm that runs; the zero Release means 22.05.
	Release           slurmspec.Release
	WithoutAccounting bool
}

// New reads the rules of a cluster. submitters are the users of the workload. A replay adds them
// to the cluster's users. Without commands for sacctmgr, a replay makes up accounts for all users.
func New(cluster *conf.Cluster, submitters []hpc.User, o Options) (*Site, error) {
	s := &Site{
		cluster: cluster, release: o.Release, partitions: map[string]*partition{},
		perUser: map[userKey]*associations.Association{}, standing: map[*associations.Association]*standing{},
		users:    map[string]hpc.User{},
		features: map[string]bool{}, gres: map[string]bool{},
	}
	for _, list := range [][]hpc.User{cluster.Users, submitters} { // the cluster's users have precedence
		for _, u := range list {
			if _, known := s.users[u.Name]; !known {
				u.Group = cmp.Or(u.Group, u.Name)
				s.users[u.Name] = u
			}
		}
	}
	if cluster.Accounting() && !o.WithoutAccounting {
		commands, _ := cluster.AccountCommands(submitters)
		s.accounts = Declared(cluster, commands)
		s.readEnforcement()
	}
	if err := s.readKeys(); err != nil {
		return nil, fmt.Errorf("%s: %w", cluster.Path, err)
	}
	kinds := kindsOf(cluster.Nodes)
	for i := range cluster.Partitions {
		p, err := s.readPartition(&cluster.Partitions[i], kinds)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: partition %s: %w", cluster.Partitions[i].File, cluster.Partitions[i].Line,
				cluster.Partitions[i].Name, err)
		}
		s.partitions[p.Name] = p
		if p.Default {
			s.standard = p
		}
	}
	return s, nil
}

// Declared returns what the commands for sacctmgr declare; nil without accounting.
func (s *Site) Declared() *associations.Set { return s.accounts }

// readEnforcement reads AccountingStorageEnforce (slurm.conf(5)). The number 2 is an old notation
// for limits.
func (s *Site) readEnforcement() {
	value, _ := s.cluster.Get("AccountingStorageEnforce")
	has := func(words ...string) bool {
		return slices.ContainsFunc(strings.Split(strings.ToLower(value), ","), func(item string) bool {
			return slices.Contains(words, strings.TrimSpace(item))
		})
	}
	s.associations = s.cluster.EnforcesAssociations()
	s.limits = has("limits", "2", "safe", "all")
	s.safe = has("safe", "all")
	s.qos = has("qos", "all")
	s.wckeys = has("wckeys", "all")
}

func (s *Site) readKeys() error {
	value := s.cluster.On(s.release)
	get := func(key string) string { v, _ := value(key); return v }
	switch strings.ToUpper(get("EnforcePartLimits")) {
	case "ALL", "YES", "UP", "TRUE", "1":
		s.enforce = enforceAll
	case "ANY":
		s.enforce = enforceAny
	}
	s.trackWCKey = slices.Contains([]string{"YES", "UP", "TRUE", "1"}, strings.ToUpper(get("TrackWCKey")))
	kind := strings.ToLower(get("SelectType"))
	s.linear, s.consTRES = kind == "select/linear", kind == "select/cons_tres"
	s.countsMemory = strings.Contains(strings.ToLower(get("SelectTypeParameters")), "memory")
	scheduler := strings.ToLower(get("SchedulerParameters"))
	s.zeroLicenses = strings.Contains(scheduler, "allow_zero_lic")
	s.anyPrefer = strings.Contains(scheduler, "ignore_prefer_validation")
	s.anyFeature = s.release.Since(slurmspec.R2302) && strings.Contains(scheduler, "ignore_constraint_validation")
	var err error
	if s.licenses, err = parseLicenses(get("Licenses")); err != nil {
		return fmt.Errorf("key Licenses=%s: %w", get("Licenses"), err)
	}
	for name := range strings.SplitSeq(get("GresTypes"), ",") {
		s.gres[strings.TrimSpace(name)] = true
	}
	for _, n := range s.cluster.Nodes {
		for _, f := range n.Features {
			s.features[f] = true
		}
	}
	s.maxArray = 1001 // slurm.conf(5), MaxArraySize
	if n, err := strconv.Atoi(get("MaxArraySize")); err == nil {
		s.maxArray = n
	}
	if _, rest, ok := strings.Cut(scheduler, "max_array_tasks="); ok {
		number, _, _ := strings.Cut(rest, ",")
		s.maxTasks, _ = strconv.Atoi(number) // like Slurm, reads 0 from a text that is not a number
		if s.maxTasks == 0 {
			s.maxTasks = -1
		}
	}
	return nil
}

// parseLicenses reads "matlab:5,ansys" (_build_license_list in licenses.c).
func parseLicenses(list string) (map[string]int64, error) {
	licenses := map[string]int64{}
	for _, item := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ';' }) {
		name, number, given := strings.Cut(item, ":")
		n := int64(1)
		if given {
			var err error
			if n, err = strconv.ParseInt(number, 10, 32); err != nil || n < 0 {
				return nil, fmt.Errorf("%q: not a license (want NAME:COUNT)", item)
			}
		}
		if name == "" || strings.ContainsAny(name, " \t") {
			return nil, fmt.Errorf("%q: not a license (want NAME:COUNT)", item)
		}
		licenses[name] += n
	}
	return licenses, nil
}
