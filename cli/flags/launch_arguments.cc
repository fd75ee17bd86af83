#include "cli/flags/launch_arguments.h"

#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <vector>

#include "cli/flags/argv.h"
#include "cli/flags/flag_values.h"
#include "cli/subcommand.h"
#include "core/files/files.h"
#include "core/text.h"
#include "device/card_files.h"

namespace fm::cli {
namespace {

constexpr auto kBool = FlagKind::kBool;
constexpr auto kInt = FlagKind::kInt;
constexpr auto kText = FlagKind::kText;
constexpr const char* kMeetingPort = "29500";  // torchrun's and DeepSpeed's

constexpr FlagRow kRunRows[] = {
    {"nproc_per_node", kText, "1", "Flags",
     "ranks of this host: a number; cpu or gpu: as many as there are; auto: gpu, else cpu"},
    {"nnodes", kText, "1", "Flags", "hosts, on each of which this command is started"},
    {"node_rank", kInt, "0", "Flags", "the number of this host, from 0 on"},
    {"master_addr", kText, "", "Flags", "host 0, as the others reach it"},
    {"master_port", kInt, "", "Flags",
     "port at which rank 0 listens; else one that nobody else has, on several hosts 29500"},
    {"log_dir", kText, "", "Flags",
     "folder for attempt_N/RANK/stdout.log and stderr.log; else output passes through"},
    {"bind_cores_to_rank", kBool, "false", "Flags", "give each rank its part of the cores"},
    {"agent", kText, "", "Used by fmengine launch", "where the job is read: - or a file"},
};

constexpr FlagRow kLaunchRows[] = {
    {"hostfile", kText, "/job/hostfile", "Hosts", "lines NAME slots=N (-H)"},
    {"include", kText, "", "Hosts", "hosts and slots to use: worker-0@worker-1:0,2 (-i)"},
    {"exclude", kText, "", "Hosts", "hosts and slots to leave out, in the same way (-e)"},
    {"num_nodes", kInt, "", "Hosts", "the first N hosts"},
    {"num_gpus", kInt, "", "Hosts", "the first N slots of each host"},
    {"num_accelerators", kInt, "", "Hosts", "the same"},
    {"launcher", kText, "pdsh", "Launcher", "pdsh, ssh, openmpi or slurm"},
    {"launcher_args", kText, "", "Launcher", "further words for it, quoted as for a shell"},
    {"ssh_port", kInt, "", "Launcher", "port of ssh on the hosts"},
    {"master_addr", kText, "", "Launcher", "host 0, as the others reach it; else its name"},
    {"master_port", kInt, kMeetingPort, "Launcher", "port at which rank 0 listens"},
    {"env", FlagKind::kList, "", "Launcher",
     "a variable for all ranks: NAME=VALUE, or NAME with the value that it has here"},
    {"bind_cores_to_rank", kBool, "false", "Launcher", "give each rank its part of the cores"},
    {"log_dir", kText, "", "Launcher", "as for fmengine run, on each host"},
    {"no_ssh", kBool, "false", "Launcher",
     "start the ranks of one host only: the same command runs on each, with its --node_rank"},
    {"node_rank", kInt, "", "Launcher", "with --no_ssh: the number of this host"},
    {"force_multi", kBool, "false", "Launcher", "use the launcher where the one host is this one"},
    {"print", kBool, "false", "Launcher", "print what would be run, and start nothing"},
    {"max_restarts", kInt, "0", "Restarts",
     "start again up to N times after exit codes of the class try-again (fmengine explain)"},
    {"min_nodes", kInt, "", "Restarts", "with as many hosts that answer, at least; else all"},
};

Program run_program() {
  return {.name = "fmengine run",
          .purpose = "Starts the ranks of this host and ends them together.",
          .usage =
              "[flags] COMMAND ...\n"
              "  COMMAND is train, another command of fmengine, or a program. PET_NNODES and the\n"
              "  like are defaults, as for torchrun. See docs/launching.md.",
          .flags = kRunRows};
}

Program launch_program() {
  return {.name = "fmengine launch",
          .purpose = "Starts ranks on the hosts of a hostfile and ends them together.",
          .usage =
              "--hostfile FILE [flags] COMMAND ...\n"
              "  COMMAND is train, another command of fmengine, or a program. See "
              "docs/launching.md.",
          .flags = kLaunchRows};
}

// Flags of torchrun's and DeepSpeed's launchers that are none here, and why.
struct ForeignFlag {
  const char* name;
  const char* answer;
};
constexpr ForeignFlag kForeignFlags[] = {
    {"no_python", "COMMAND is a program already; leave it out"},
    {"no_local_rank", "ranks have LOCAL_RANK and no such word; leave it out"},
    {"module", "COMMAND is a program; give `-- python -m NAME` for a module of Python"},
    {"standalone", "one host is the default; leave it out"},
    {"rdzv_backend", "ranks meet at --master_addr and --master_port"},
    {"rdzv_endpoint", "ranks meet at --master_addr and --master_port"},
    {"rdzv_id", "FME_JOB_TOKEN identifies the job"},
    {"redirects", "--log_dir FOLDER writes a file per rank"},
    {"tee", "--log_dir FOLDER writes a file per rank"},
    {"enable_each_rank_log", "--log_dir FOLDER writes a file per rank"},
    {"elastic_training", "--max_restarts N --min_nodes M starts again with the hosts that answer"},
    {"min_elastic_nodes", "use --max_restarts N --min_nodes M"},
    {"max_elastic_nodes", "use --max_restarts N --min_nodes M"},
    {"autotuning", "fmengine train --plan compares layouts without a run"},
    {"bind_core_list", "use --bind_cores_to_rank, or taskset before the launcher"},
    {"no_ssh_check", "nothing is checked ahead; leave it out"},
    {"venv_script", "programs need no Python environment; set variables by --env"},
    {"save_pid", "the shell has the process: $!"},
    {"world_info", "--hostfile, --include and --exclude say it"},
    {"log_level", "there are no levels; leave it out"},
    {"quiet", "there are no levels; leave it out"},
};

struct Parts {
  std::vector<std::string> flags;
  std::vector<std::string> command;
};

// The flag's name in "--no-ssh=true", with underscores; "" where the word is none.
std::string flag_in(const std::string& word) {
  if (word.size() <= 2 || !word.starts_with("--")) return "";
  std::string name = word.substr(2, word.find('=') - 2);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

// Up to the first word that is no flag or its value, or "--": what follows belongs to the ranks.
Parts parts_of(std::span<const std::string> words, const Program& program) {
  static const std::map<std::string, std::string> kShort = {
      {"-H", "--hostfile"}, {"-i", "--include"}, {"-e", "--exclude"}, {"-h", "--help"}};
  Parts parts;
  std::size_t at = 0;
  for (; at < words.size() && words[at].starts_with("-"); ++at) {
    if (words[at] == "--") {
      ++at;
      break;
    }
    const auto alias = kShort.find(words[at]);
    const bool has_hosts = std::string_view(program.name) == "fmengine launch";
    const bool is_alias = alias != kShort.end() && (has_hosts || alias->first == "-h");
    const std::string word = is_alias ? alias->second : words[at];
    const std::string name = flag_in(word);
    const FlagRow* const row = find_flag(name, program.flags);
    const auto* const foreign = std::ranges::find(kForeignFlags, name, &ForeignFlag::name);
    FM_USER_CHECK(row != nullptr || foreign == std::end(kForeignFlags), program.name, " has no --",
                  name, ": ", foreign->answer);
    // One word, as a value may begin with dashes: --launcher_args "--mca btl tcp".
    const bool takes_next = row != nullptr && row->kind != kBool && word.find('=') == word.npos;
    const bool has_next = takes_next && at + 1 < words.size();
    parts.flags.push_back(has_next ? core::concat(word, "=", words[++at]) : word);
  }
  parts.command.assign(words.begin() + static_cast<std::ptrdiff_t>(at), words.end());
  return parts;
}

std::vector<std::string> normal_of(const Parts& parts, std::span<const FlagRow> rows, bool& help,
                                   bool& version) {
  std::vector<std::string> normal = normalise_argv(parts.flags, rows).words;
  help = std::find(normal.begin(), normal.end(), "--help") != normal.end();
  version = std::find(normal.begin(), normal.end(), "--version") != normal.end();
  return normal;
}

// "train" is the program beside this one.
std::vector<std::string> rank_words(std::vector<std::string> command, const char* program,
                                    const std::string& programs) {
  FM_USER_CHECK(!command.empty(), "a command for the ranks is required: ", program,
                " [flags] train ..., or another program behind the flags");
  if (is_program(command[0])) command[0] = programs + "/fmengine-" + command[0];
  return command;
}

int usable_cpus() {
  cpu_set_t all;
  CPU_ZERO(&all);
  return sched_getaffinity(0, sizeof(all), &all) == 0 ? std::max(1, CPU_COUNT(&all)) : 1;
}

// The flag, else the first variable that is set, else the default.
std::string said(const FlagValues& flags, const std::string& name,
                 const core::Environment& environment, const std::vector<std::string>& variables) {
  if (flags.given(name)) return flags.text(name);
  for (const std::string& variable : variables) {
    if (const auto value = environment(variable); value && !value->empty()) return *value;
  }
  return flags.text(name);
}

int whole(const std::string& text, const char* what, int least, int most) {
  const auto value = core::integer_of(text);
  FM_USER_CHECK(value && *value >= least && *value <= most, what, " must be a whole number from ",
                least, " to ", most, "; correct it (", text, ")");
  return static_cast<int>(*value);
}

int ranks_here(const std::string& word, const core::Environment& environment) {
  const int gpus = usable_gpus(environment("CUDA_VISIBLE_DEVICES"), "/dev");
  if (word == "auto") return gpus > 0 ? gpus : usable_cpus();
  if (word == "cpu") return usable_cpus();
  FM_USER_CHECK(word != "gpu" || gpus > 0,
                "--nproc_per_node gpu needs a GPU on this host; give a number, or auto");
  if (word == "gpu") return gpus;
  return whole(word, "--nproc_per_node (PET_NPROC_PER_NODE)", 1, 10'000);
}

// Words quoted as for a shell.
std::vector<std::string> shell_words(const std::string& text) {
  std::vector<std::string> words;
  char quote = 0;
  bool inside = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    const bool blank = quote == 0 && (c == ' ' || c == '\t');
    if (blank) {
      inside = false;
      continue;
    }
    if (!inside) words.emplace_back();
    inside = true;
    if (quote == 0 && (c == '"' || c == '\'')) {
      quote = c;
    } else if (c == quote) {
      quote = 0;
    } else if (c == '\\' && quote != '\'' && at + 1 < text.size()) {
      words.back() += text[++at];
    } else {
      words.back() += c;
    }
  }
  FM_USER_CHECK(quote == 0, "--launcher_args must close its quotes; correct it (", text, ")");
  return words;
}

std::string value_of(const std::vector<std::string>& variables, const std::string& name) {
  for (const std::string& variable : variables) {
    if (variable.starts_with(name + "=")) return variable.substr(name.size() + 1);
  }
  return "";
}

// What ranks on other hosts get: later ones win.
std::vector<std::string> job_variables(const FlagValues& flags,
                                       const std::vector<std::string>& variables) {
  std::map<std::string, std::string> all;
  const auto add = [&all](const std::vector<std::string>& more) {
    for (const std::string& entry : more) {
      all[entry.substr(0, entry.find('='))] = entry.substr(entry.find('=') + 1);
    }
  };
  add(launch::travelling(variables));
  const std::string own = value_of(variables, "DS_ENV_FILE");
  const std::string name = own.empty() ? ".deepspeed_env" : own;
  const std::filesystem::path home = value_of(variables, "HOME");
  for (const std::filesystem::path& path : {home / name, std::filesystem::path(name)}) {
    if (!std::filesystem::exists(path)) continue;
    const core::SmallFile file = core::read_small_file(path, core::kMostConfig);
    FM_DATA_CHECK(file.problem.empty(), "a file of variables must be readable; correct it (",
                  path.string(), ": ", file.problem, ")");
    add(launch::variables_in(file.text, path.string()));
  }
  for (const std::string& entry : flags.list("env")) {
    const bool here = entry.find('=') == entry.npos;
    const bool set = std::ranges::any_of(
        variables, [&](const std::string& each) { return each.starts_with(entry + "="); });
    FM_USER_CHECK(!here || set,
                  "--env NAME passes on a variable that is set here; set it, or give NAME=VALUE (",
                  entry, ")");
    add({here ? entry + "=" + value_of(variables, entry) : entry});
  }
  std::vector<std::string> list;
  for (const auto& [key, value] : all) list.push_back(core::concat(key, "=", value));
  return list;
}

std::vector<launch::HostSlots> read_hosts(const FlagValues& flags) {
  const std::string path = flags.text("hostfile");
  const core::SmallFile file = core::read_small_file(path, core::kMostConfig, core::FileKind::kAny);
  FM_DATA_CHECK(file.problem.empty(),
                "a hostfile is required; give --hostfile FILE, or use fmengine run on one host (",
                path, ": ", file.problem, ")");
  const bool chooses = flags.given("include") || flags.given("exclude");
  const bool two = flags.given("num_gpus") && flags.given("num_accelerators");
  FM_USER_CHECK(!two, "--num_gpus and --num_accelerators are one flag; keep one");
  const char* const slots_flag = flags.given("num_gpus") ? "num_gpus" : "num_accelerators";
  const bool limits = flags.given("num_nodes") || flags.given(slots_flag);
  FM_USER_CHECK(!chooses || !limits,
                "--num_nodes and --num_gpus do not go with --include or --exclude; keep one kind");
  const int nodes = flags.given("num_nodes") ? flags.small("num_nodes", 1) : -1;
  const int slots = flags.given(slots_flag) ? flags.small(slots_flag, 1) : -1;
  const auto hosts = launch::chosen_hosts(launch::hosts_in(file.text, path), flags.text("include"),
                                          flags.text("exclude"));
  return launch::first_hosts(hosts, nodes, slots);
}

bool is_loopback_name(const std::string& host) {
  return host == "localhost" || host.starts_with("127.") || host == "::1";
}

// The flag, else a port of our own among the variables of ranks, else "". The flag takes the others
// from the ranks, where they would win.
std::string port_of(const FlagValues& flags, std::vector<std::string>& variables) {
  constexpr const char* kNames[] = {"FME_MASTER_PORT", "FMENGINE_MASTER_PORT"};
  for (const char* const name : kNames) {
    std::string port = value_of(variables, name);
    if (!flags.given("master_port") && !port.empty()) return port;
    std::erase_if(variables, [name](const std::string& variable) {
      return variable.starts_with(core::concat(name, "="));
    });
  }
  return flags.given("master_port") ? flags.text("master_port") : "";
}

// The token that the job's variables or this process's have. Where it is in a file, ranks read it.
void read_token(const std::vector<std::string>& variables, const LaunchCommand& command,
                launch::AgentJob& job) {
  job.token = value_of(job.variables, "FME_JOB_TOKEN");
  if (job.token.empty()) job.token = value_of(variables, "FME_JOB_TOKEN");
  std::erase_if(job.variables,
                [](const std::string& variable) { return variable.starts_with("FME_JOB_TOKEN="); });
  job.token_in_file = job.token.empty() && !value_of(job.variables, "FME_JOB_TOKEN_FILE").empty();
  if (job.token_in_file) return;
  FM_USER_CHECK(!command.no_ssh || !job.token.empty() || command.plan.hosts.size() == 1,
                "with --no_ssh FME_JOB_TOKEN must be the same secret on each host: 32 or more "
                "hexadecimal digits, as of `openssl rand -hex 32`");
  if (job.token.empty()) job.token = launch::new_token();
}

// Where the ranks meet, and who starts them.
void read_meeting(const FlagValues& flags, LaunchCommand& command) {
  launch::LaunchPlan& plan = command.plan;
  const std::string first = plan.hosts[0].host;
  const bool own = is_loopback_name(first) || first == core::host_name();
  plan.here = plan.hosts.size() == 1 && own && !flags.flag("force_multi") && !command.no_ssh &&
              plan.transport != launch::Transport::kSlurm &&
              plan.transport != launch::Transport::kOpenMpi;
  plan.fixed_address = flags.text("master_addr");
  FM_USER_CHECK(
      plan.hosts.size() == 1 || !plan.fixed_address.empty() || !is_loopback_name(first),
      "other hosts must be able to reach the first one; name it otherwise, or give --master_addr (",
      first, ")");
  plan.job.master_addr = plan.fixed_address.empty() ? first : plan.fixed_address;
  const std::string port = port_of(flags, plan.job.variables);
  plan.job.master_port =
      whole(port.empty() ? kMeetingPort : port, "--master_port (FME_MASTER_PORT)", 1, 65535);
  // Else the port of a step of srun follows from its number.
  const bool free_port = (plan.here || plan.transport == launch::Transport::kSlurm) && port.empty();
  if (free_port) plan.job.master_port = 0;
  if (plan.here && plan.fixed_address.empty()) plan.job.master_addr = "127.0.0.1";
}

// mpirun and srun start the ranks themselves.
void check_without_agents(const FlagValues& flags, const launch::LaunchPlan& plan) {
  const bool slurm = plan.transport == launch::Transport::kSlurm;
  if (!slurm && plan.transport != launch::Transport::kOpenMpi) return;
  std::vector<std::string> others = {"bind_cores_to_rank", "log_dir", "no_ssh"};
  const std::vector<std::string> more =
      slurm ? std::vector<std::string>{"ssh_port", "max_restarts", "min_nodes"}
            : std::vector<std::string>{"master_addr", "master_port"};
  others.insert(others.end(), more.begin(), more.end());
  for (const std::string& name : others) {
    FM_USER_CHECK(!flags.given(name), "--", name, " does not go with --launcher ",
                  flags.text("launcher"), ", which does it in its own way; use --launcher_args");
  }
  for (const launch::HostSlots& host : plan.hosts) {
    const int count = static_cast<int>(host.slots.size());
    FM_USER_CHECK(host.slots.back() == count - 1, "--launcher ", flags.text("launcher"),
                  " can use the first slots of a host only; use --launcher pdsh or ssh (",
                  host.host, ")");
  }
}

// --no_ssh: the part of this host.
void read_own_node(const FlagValues& flags, launch::LaunchPlan& plan) {
  const int nodes = static_cast<int>(plan.hosts.size());
  FM_USER_CHECK(flags.given("node_rank"),
                "--no_ssh needs the number of this host; give --node_rank 0 to ", nodes - 1);
  launch::AgentJob& job = plan.job;
  job.node = whole(flags.text("node_rank"), "--node_rank", 0, nodes - 1);
  job.nodes = nodes;
  job.world_size = 0;
  for (int node = 0; node < nodes; ++node) {
    const std::vector<int>& slots = plan.hosts[static_cast<std::size_t>(node)].slots;
    if (node == job.node) {
      job.first_rank = job.world_size;
      job.ranks = static_cast<int>(slots.size());
      std::vector<std::string> words;
      for (const int slot : slots) words.push_back(std::to_string(slot));
      job.slots = core::join(words, ",");
    }
    job.world_size += static_cast<int>(slots.size());
  }
}

// Nodes, ranks, and where they meet.
void read_places(const FlagValues& flags, const core::Environment& environment,
                 launch::AgentJob& job) {
  const auto value = [&](const char* name, const std::vector<std::string>& variables) {
    return said(flags, name, environment, variables);
  };
  // PyTorchJob of Kubeflow 1 tells each pod a RANK and no LOCAL_RANK: pods are nodes.
  const bool pods = !flags.given("nnodes") && !environment("PET_NNODES") && environment("RANK") &&
                    environment("WORLD_SIZE") && !environment("LOCAL_RANK");
  using Names = std::vector<std::string>;
  const std::string nodes = value("nnodes", pods ? Names{"WORLD_SIZE"} : Names{"PET_NNODES"});
  FM_USER_CHECK(nodes.find(':') == nodes.npos,
                "--nnodes must be one number of hosts; a range is for an engine that starts again, "
                "as fmengine launch --max_restarts (",
                nodes, ")");
  job.nodes = whole(nodes, "--nnodes (PET_NNODES)", 1, 100'000);
  job.node = whole(value("node_rank", pods ? Names{"RANK"} : Names{"PET_NODE_RANK"}),
                   "--node_rank (PET_NODE_RANK)", 0, job.nodes - 1);
  job.ranks = ranks_here(value("nproc_per_node", {"PET_NPROC_PER_NODE"}), environment);
  job.first_rank = job.node * job.ranks;
  job.world_size = job.nodes * job.ranks;
  const bool alone = job.nodes == 1;
  job.master_addr = value("master_addr", pods ? Names{"MASTER_ADDR"} : Names{"PET_MASTER_ADDR"});
  if (alone && !flags.given("master_addr")) job.master_addr = "";
  FM_USER_CHECK(
      alone || !job.master_addr.empty(),
      "--master_addr must name host 0 where there are several; give it on each (--nnodes ",
      job.nodes, ")");
  std::string port = value("master_port", {"FME_MASTER_PORT", "FMENGINE_MASTER_PORT",
                                           pods ? "MASTER_PORT" : "PET_MASTER_PORT"});
  if (port.empty() && !alone) port = kMeetingPort;
  if (!port.empty()) job.master_port = whole(port, "--master_port", 1, 65535);
}

}  // namespace

int usable_gpus(const std::optional<std::string>& visible, const std::filesystem::path& devices) {
  if (visible) {
    const std::vector<std::string> named = core::split(*visible, ',');
    const auto end = std::ranges::find_if(
        named, [](const std::string& each) { return each.empty() || each == "-1"; });
    return static_cast<int>(end - named.begin());
  }
  return static_cast<int>(device::card_files(devices).size());
}

RunCommand parse_run_command(std::span<const std::string> words,
                             const core::Environment& environment, const std::string& programs) {
  RunCommand command;
  const Parts parts = parts_of(words, run_program());
  const std::vector<std::string> normal = normal_of(parts, kRunRows, command.help, command.version);
  if (command.help || command.version) return command;
  const FlagValues flags(run_program(), normal);
  launch::AgentJob& job = command.job;
  command.agent = flags.given("agent");
  command.job_file = flags.text("agent");
  if (command.agent) {
    job.node = whole(flags.text("node_rank"), "--node_rank", 0, 1'000'000);
    return command;
  }
  read_places(flags, environment, job);
  job.log_dir = said(flags, "log_dir", environment, {"PET_LOG_DIR"});
  job.bind_cores = flags.flag("bind_cores_to_rank");
  job.token = environment("FME_JOB_TOKEN").value_or("");
  job.token_in_file = job.token.empty() && environment("FME_JOB_TOKEN_FILE").has_value();
  job.restart = environment("FME_RESTART_COUNT").value_or("0");
  FM_USER_CHECK(job.nodes == 1 || !job.token.empty() || job.token_in_file,
                "on several hosts FME_JOB_TOKEN must be the same secret on each: 32 or more "
                "hexadecimal digits, as of `openssl rand -hex 32` (--nnodes ",
                job.nodes, ")");
  job.words = rank_words(parts.command, "fmengine run", programs);
  return command;
}

LaunchCommand parse_launch_command(std::span<const std::string> words,
                                   const std::vector<std::string>& variables,
                                   const std::string& programs) {
  using launch::Transport;
  LaunchCommand command;
  const Parts parts = parts_of(words, launch_program());
  const std::vector<std::string> normal =
      normal_of(parts, kLaunchRows, command.help, command.version);
  if (command.help || command.version) return command;
  const FlagValues flags(launch_program(), normal);
  launch::LaunchPlan& plan = command.plan;
  plan.transport = flags.choice<Transport>("launcher", {{"pdsh", Transport::kPdsh},
                                                        {"ssh", Transport::kSsh},
                                                        {"openmpi", Transport::kOpenMpi},
                                                        {"slurm", Transport::kSlurm}});
  plan.hosts = read_hosts(flags);
  plan.agent = programs + "/fmengine-run";
  plan.launcher_args = shell_words(flags.text("launcher_args"));
  if (flags.given("ssh_port")) {
    plan.ssh_port = whole(flags.text("ssh_port"), "--ssh_port", 1, 65535);
  }
  command.print = flags.flag("print");
  command.no_ssh = flags.flag("no_ssh");
  launch::AgentJob& job = plan.job;
  job.variables = job_variables(flags, variables);
  read_meeting(flags, command);
  check_without_agents(flags, plan);
  job.folder = std::filesystem::current_path().string();
  job.log_dir = flags.text("log_dir");
  job.bind_cores = flags.flag("bind_cores_to_rank");
  read_token(variables, command, job);
  const bool restarts = flags.given("max_restarts") || flags.given("min_nodes");
  FM_USER_CHECK(!command.no_ssh || !restarts,
                "with --no_ssh every host is started by itself, and nothing is started again; "
                "leave --max_restarts and --min_nodes out");
  FM_USER_CHECK(command.no_ssh || !flags.given("node_rank"), "--node_rank belongs to --no_ssh");
  if (command.no_ssh) read_own_node(flags, plan);
  command.restarts.most = flags.small("max_restarts", 0);
  if (command.restarts.most > 0 && value_of(job.variables, "FME_LAUNCH_ID").empty()) {
    job.variables.push_back("FME_LAUNCH_ID=" + launch::new_token());
  }
  if (flags.given("min_nodes")) command.restarts.min_nodes = flags.small("min_nodes", 1);
  FM_USER_CHECK(command.restarts.min_nodes <= static_cast<int>(plan.hosts.size()),
                "--min_nodes must be at most the hosts that are used (", command.restarts.min_nodes,
                ", ", plan.hosts.size(), " hosts)");
  job.words = rank_words(parts.command, "fmengine launch", programs);
  return command;
}

std::string run_help_text() { return help_text(run_program()); }

std::string launch_help_text() { return help_text(launch_program()); }

}  // namespace fm::cli
