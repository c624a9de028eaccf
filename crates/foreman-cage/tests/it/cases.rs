//! All cases, by name.

mod ahead;
mod asked;
mod ending;
mod files;
mod held;
mod pausing;
mod programs;
mod refusals;
mod shown;
mod walls;

/// A case: a sentence and what proves it.
pub type Case = (&'static str, fn());

macro_rules! cases {
    ($($module:ident: $($name:ident),+ $(,)?;)+) => {
        pub const ALL: &[Case] = &[$($((stringify!($name), $module::$name as fn())),+),+];
    };
}

cases! {
    programs:
        every_wall_holds_in_a_fresh_cage,
        exit_codes_and_signals_are_told,
        the_environment_is_exactly_what_was_asked_for,
        only_the_standard_streams_are_open,
        a_program_that_cannot_start_is_explained,
        a_terminal_controls_its_program,
        a_long_command_line_arrives_whole,
        programs_run_side_by_side,
        a_script_without_a_first_line_is_a_shells,
        a_signal_reaches_the_whole_group,
        common_tools_work;
    files:
        the_worktree_is_live_in_both_directions,
        nothing_else_of_the_host_is_seen,
        sockets_and_hidden_folders_below_a_system_directory_are_covered,
        the_system_and_proc_are_read_only,
        the_git_file_can_be_neither_written_nor_replaced,
        users_hosts_and_the_resolver_are_the_cages_own,
        the_cages_files_hold_no_setuid_and_no_devices,
        foreman_and_its_socket_are_there,
        odd_paths_are_no_obstacle;
    walls:
        every_forbidden_call_is_refused,
        only_ordinary_sockets_can_be_made,
        foreign_calls_do_not_work,
        process_1_is_out_of_reach,
        programs_have_no_privilege,
        abstract_sockets_of_the_host_are_out_of_reach,
        a_fork_bomb_is_bounded_and_the_next_program_starts,
        roots_cage_is_an_unprivileged_user_on_the_host;
    held:
        each_call_that_writes_waits_and_goes_on_in_what_is_shown,
        once_gives_a_descriptor_with_the_callers_mode_and_flags,
        what_is_refused_is_seen_as_the_kernels_own_refusal,
        eight_calls_wait_while_a_ninth_thread_goes_on,
        programs_are_held_side_by_side,
        signals_that_do_not_kill_leave_a_call_waiting,
        a_caller_that_is_killed_leaves_nothing_behind,
        when_nobody_answers_any_more_calls_fail,
        a_hidden_program_waits_where_reads_do;
    asked:
        a_path_is_asked_about_by_where_it_leads,
        what_is_nobodys_question_is_not_asked,
        a_path_that_changes_meanwhile_gains_nothing,
        a_way_that_changes_meanwhile_gains_nothing;
    shown:
        what_is_shown_is_live_and_hidden_again,
        a_single_file_is_shown_and_hidden_again,
        a_folder_that_may_be_written_stays_so_below_one_that_may_be_read,
        what_is_mounted_below_it_later_on_the_host_does_not_appear,
        what_is_open_stays_open_when_it_is_hidden,
        what_the_cage_shows_in_its_own_way_is_never_covered,
        a_place_that_is_bent_meanwhile_is_no_way_into_the_host,
        a_source_that_is_not_what_was_shown_is_refused,
        host_sockets_need_another_question,
        a_verdict_that_cannot_be_carried_out_refuses_the_call,
        a_link_of_the_host_leads_to_what_is_shown,
        a_program_started_ahead_is_held_like_any,
        programs_are_told_with_their_arguments_and_ends;
    ahead:
        a_program_started_ahead_proves_the_walls_and_runs_only_when_asked_for,
        a_program_started_ahead_does_not_run_unproven,
        another_program_than_the_one_started_ahead_runs_alone,
        a_program_started_ahead_for_nothing_is_none_that_was_killed,
        a_program_started_ahead_that_cannot_start_is_explained_like_any;
    ending:
        killing_all_takes_daemons_too,
        destroying_counts_and_leaves_nothing,
        dropping_a_cage_kills_it,
        the_cage_dies_with_its_launcher,
        a_dropped_spawn_leaves_no_program,
        waiting_can_be_dropped_and_repeated;
    pausing:
        a_paused_cage_does_nothing_and_the_same_processes_go_on,
        nobody_escapes_a_pause_by_forking,
        processes_that_wake_each_other_are_all_stopped_in_the_end,
        a_program_that_the_kernel_wakes_on_its_behalf_is_noticed_and_paused_again,
        what_was_stopped_before_stays_stopped,
        a_paused_cage_can_be_killed,
        open_files_are_limited_and_the_limit_cannot_be_raised,
        removed_files_that_are_open_are_seen;
    refusals:
        a_linked_source_is_refused,
        a_source_that_is_no_file_is_refused,
        a_missing_target_in_a_host_directory_is_refused,
        a_linked_target_is_refused,
        a_second_thread_is_refused,
        an_impossible_specification_is_refused,
        a_missing_program_of_why_is_refused,
        a_failed_launch_leaves_no_process,
        a_machine_without_user_namespaces_is_named,
        a_masked_proc_is_named,
        root_by_name_only_is_caged_as_an_unprivileged_number;
}
