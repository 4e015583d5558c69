package values

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"rmreplay/internal/hpc"
	"rmreplay/internal/slurmspec"
)

// allocated are the resources of SelectTypeParameters. A value may have only one of them
// (_parse_select_type_param in src/common/read_config.c).
var allocated = []string{"cr_core", "cr_core_memory", "cr_cpu", "cr_cpu_memory", "cr_memory", "cr_socket",
	"cr_socket_memory"}

func selectTypeParameters(value string) error {
	options, names := words(value), []string(nil)
	for _, option := range options {
		if slices.Contains(allocated, option) {
			names = append(names, option)
		}
	}
	switch {
	case len(names) > 1:
		return fmt.Errorf("slurmctld refuses %s together (want one of them)", strings.ToUpper(strings.Join(names, " and ")))
	case len(names) == 1 && strings.HasPrefix(names[0], "cr_cpu") && slices.Contains(options, "cr_one_task_per_core"):
		return errors.New("slurmctld refuses CR_ONE_TASK_PER_CORE with CR_CPU (want CR_Core)")
	}
	return nil
}

// selection checks whether SelectTypeParameters fits SelectType (select_g_init in
// src/interfaces/select.c, select_p_node_init in src/plugins/select/cons_tres).
func selection(get Settings) error {
	value, set := get("SelectTypeParameters")
	processors := slices.ContainsFunc(words(value), func(option string) bool {
		return slices.Contains(allocated, option) && option != "cr_memory"
	})
	switch get.lower("SelectType") {
	case "select/linear":
		if processors {
			return errors.New("slurmctld refuses this value with SelectType=select/linear (want CR_Memory, or " +
				"SelectType=select/cons_tres)")
		}
	case "select/cons_res", "select/cons_tres":
		if set && !processors && len(words(value)) > 0 {
			return errors.New("slurmctld refuses this value without CR_Core, CR_CPU or CR_Socket " +
				"(want, for example, CR_Core_Memory)")
		}
	}
	return nil
}

// CheckNode returns an error if slurmctld of the release refuses the CPUs of a node under the
// given SelectType. Slurm 22.05 allocates either one CPU per core or one CPU per thread
// (select_p_node_init in src/plugins/select/cons_common).
func CheckNode(n hpc.Node, selectType string, release slurmspec.Release) error {
	cores := n.Sockets * n.CoresPerSocket
	if release.Since(slurmspec.R2302) || !strings.HasPrefix(selectType, "select/cons_") || n.CPUs == cores ||
		n.CPUs == cores*n.ThreadsPerCore {
		return nil
	}
	return fmt.Errorf("CPUs=%d: slurmctld %v refuses one CPU for each socket (want CPUs=%d)",
		n.CPUs, release.Series(), cores)
}
