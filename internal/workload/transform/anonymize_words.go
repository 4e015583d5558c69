package transform

import (
	"strings"

	"rmreplay/internal/slurmspec/history"
	"rmreplay/internal/slurmspec/options"
)

// nameKeys are the keys whose values hold names, in lower case: those of a cluster's files, of sacctmgr's commands, and
// of a trace. The values of all other keys are numbers and Slurm's own words.
var nameKeys = wordSet(`
	clustername nodename nodes downnodes nodeset switchname switches blockname partitionname alternate
	allowaccounts denyaccounts allowgroups allowqos denyqos feature features gres grestypes licenses name type
	account accounts parent user users names coordinators cluster clusters wckey wckeys preempt
	defaultaccount defaultwckey newname group groups id nodes exclude node_list partition partitions constraint prefer gpus
	gpus_per_node gpus_per_socket gpus_per_task cluster_constraint mcs_label reservation file_system source comment
	burst_buffer task_nodes preempted_by`)

// holdsNames reports whether the values of a key, in lower case, hold names.
func holdsNames(key string) bool {
	return nameKeys[key] || strings.HasPrefix(key, "q") || strings.HasPrefix(key, "defaultq") ||
		strings.HasPrefix(key, "part") || strings.Contains(key, "tres")
}

// ours reports whether a word belongs to Slurm or to the trace format. Words of Slurm and of the trace format always
// stay.
func ours(word string) bool { return vocabulary[strings.ToLower(word)] }

// vocabulary are the words of the formats of a trace and of a cluster's files that are not keys.
var vocabulary = func() map[string]bool {
	set := wordSet(`
		root normal default all none yes no force up down drain idle future unknown unlimited infinite anonymous controller database
		slurm gpu mps shard bb cpu mem node nodes billing energy fs license gres job user users account accounts reservation usage
		create update delete resume fail completed failed cancelled timeout node_fail preempted out_of_memory boot_fail deadline running
		pending rejected true false add modify where set cluster qos wckey coordinator parent name batch made rmreplay trace
		afterok afterany afternotok aftercorr after singleton exclusive mcs published bursts like fitting users
		disk ic ofed datawarp pages vmem gpumem gpuutil no_consume nic craynetwork`)
	for key := range exported {
		set[key] = true
	}
	return set
}()

func wordSet(words string) map[string]bool {
	set := map[string]bool{}
	for word := range strings.FieldsSeq(words) {
		set[word] = true
	}
	return set
}

// fixed are Slurm's words in the values of keys that hold no names, in lower case: plugins, options, flags, states and
// signals. The set also has the names of the rules that make fields.
var fixed = func() map[string]bool {
	set := wordSet(`
		sched backfill builtin select linear cons_res cons_tres priority basic multifactor preempt partition partition_prio
		topology tree 3d_torus block flat hypercube accounting_storage slurmdbd mysql filetxt auth munge slurm mcs label
		account group user any on off gang suspend cancel requeue within up inactive cloud parent operator admin
		administrator safe
		accrue_always calculate_running depth_oblivious incr_only max_tres no_fair_tree no_normal_all no_normal_assoc
		no_normal_part no_normal_qos no_normal_tres small_relative_to_time
		min_exempt_priority reclaim_licenses reorder_count send_user_signal strict_order suspend_grace_time youngest_first
		kill_invalid_depend disable_remote_singleton max_depend_depth dragonfly topooptional nocttldinaddrany noinaddrany
		batch_step_set_cpu_freq disable_send_gids enable_nss_slurm lustre_no_flush mem_sort mpir_use_nodeaddr send_gids
		slurmstepd_memlock slurmstepd_memlock_all test_exec use_interactive_step ulimit_pam_adopt
		nvml rsmi nrt oneapi nvidia nvidia_gpu_env amd_gpu_env intel_gpu_env opencl_env no_gpu_env countonly one_sharing
		all_sharing explicit socket sockets ldom ldoms core cores thread threads board boards
		denyonlimit enforceusagethreshold noreserve nodecay overpartqos partitionmaxnodes partitionminnodes
		partitiontimelimit requiresreservation usagefactorsafe relative
		maint ignore_jobs daily weekly weekday weekend hourly overlap flex magnetic purge_comp replace replace_down
		static_alloc static any_nodes all_nodes first_cores time_float spec_nodes part_nodes no_hold_jobs_after user_delete
		cyclic plane fcyclic arbitrary pack nopack compute_bound memory_bound multithread nomultithread topo
		enforce-binding disable-binding one-task-per-sharing multiple-tasks-per-sharing allow-task-sharing
		hup int quit kill usr1 usr2 term cont stop tstp ttin ttou urg abrt xcpu sig_dfl
		time_limit memory used share full-nodes uniform tsafrir run-time max free stationary merge window`)
	for option, values := range options.Scheduler {
		set[option] = true
		for _, word := range values.Words {
			set[word] = true
		}
	}
	for _, list := range history.Options {
		for _, option := range list.Always {
			set[option] = true
		}
		for option := range list.Some {
			set[option] = true
		}
	}
	for plugin := range history.Plugins {
		for word := range strings.SplitSeq(plugin, "/") {
			set[word] = true
		}
	}
	return set
}()
