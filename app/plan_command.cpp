#include "app/plan_command.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "app/compare_text.h"
#include "app/output_file.h"
#include "app/plan_text.h"
#include "app/progress.h"
#include "core/config/quantity.h"
#include "core/config/read.h"
#include "core/config/write.h"
#include "core/error.h"
#include "costmodel/pareto.h"
#include "study/compare_plans.h"
#include "study/plan_study.h"

namespace orrery::app {
namespace {

namespace fs = std::filesystem;

// Plans beyond those shown, so that those within the model's error can be told.
constexpr std::size_t kKept = 200;

// As the plan's file names it: relative to its folder, so that a tree of files can be moved.
std::string beside(const fs::path& plan_file, const std::string& path) {
  return fs::proximate(fs::absolute(path), fs::absolute(plan_file).parent_path()).string();
}

/// The value that a name on the command line stands for.
template <class Value, class Name>
std::optional<Value> named(const std::optional<std::string>& text,
                           std::initializer_list<Value> values, Name name_of) {
  if (!text) return std::nullopt;
  for (const Value value : values) {
    if (name_of(value) == *text) return value;
  }
  return std::nullopt;
}

costmodel::PlanConditions conditions_of(const PlanFlags& flags) {
  using Schedule = core::PipelineSchedule;
  using core::Recompute;
  costmodel::PlanConditions wanted;
  wanted.data = flags.data;
  wanted.sharding = flags.sharding;
  wanted.sharding_stage = flags.sharding_stage;
  wanted.tensor = flags.tensor;
  wanted.pipeline = flags.pipeline;
  wanted.context = flags.context;
  wanted.expert = flags.expert;
  wanted.expert_tensor = flags.expert_tensor;
  if (flags.expert_capacity) wanted.expert_capacity = *flags.expert_capacity;
  wanted.virtual_stages = flags.virtual_stages;
  wanted.microbatch = flags.microbatch;
  if (flags.sequence_parallel) wanted.sequence_parallel = *flags.sequence_parallel == "yes";
  wanted.schedule = named(flags.schedule,
                          {Schedule::GPipe, Schedule::OneFOneB, Schedule::Interleaved,
                           Schedule::ZeroBubbleH1, Schedule::ZeroBubble1p, Schedule::ZeroBubble2p},
                          core::schedule_name);
  wanted.recompute =
      named(flags.recompute, {Recompute::None, Recompute::Selective, Recompute::Full},
            core::recompute_name);
  return wanted;
}

core::Bytes memory_of(const std::string& text) {
  try {
    return core::parse<core::Bytes>(text);
  } catch (const core::ConfigError& error) {
    throw core::ConfigError(std::string("--max-memory: ") + error.what());
  }
}

study::PlanStudyOptions study_options(const PlanFlags& flags, Progress& progress) {
  study::PlanStudyOptions options;
  options.keep = std::max(kKept, static_cast<std::size_t>(std::max(flags.top, flags.pick)));
  options.simulated = static_cast<std::size_t>(flags.simulate);
  options.conditions = conditions_of(flags);
  if (flags.max_memory) options.memory = memory_of(*flags.max_memory);
  options.progress = [&progress, &flags](std::size_t number) {
    progress.say(fmt::format("simulating plan {} of {}", number, flags.simulate));
  };
  return options;
}

bool any(const costmodel::PlanConditions& wanted) {
  return wanted.data || wanted.sharding || wanted.sharding_stage || wanted.tensor ||
         wanted.pipeline || wanted.context || wanted.expert || wanted.expert_tensor ||
         wanted.virtual_stages || wanted.microbatch || wanted.sequence_parallel ||
         wanted.schedule || wanted.recompute;
}

/// Every device is used, so each degree that is asked for divides their number, and so does the
/// product; of --max-gpus some part is taken, so there it only must not be larger.
/// @throws ConfigError
void require_degrees_that_divide(const PlanFlags& flags, const PlanQuestion& question) {
  const std::pair<const char*, std::optional<int>> degrees[] = {
      {"--data", flags.data},       {"--sharding", flags.sharding}, {"--expert", flags.expert},
      {"--context", flags.context}, {"--tensor", flags.tensor},     {"--pipeline", flags.pipeline}};
  const int devices = question.cluster.devices();
  const bool part = flags.max_gpus && *flags.max_gpus < devices;
  double product = 1;
  std::string asked;
  for (const auto& [name, degree] : degrees) {
    if (!degree) continue;
    if (!part && devices % *degree != 0) {
      throw core::ConfigError(fmt::format("{} {} does not divide the {} devices of the cluster",
                                          name, *degree, devices));
    }
    product *= *degree;
    asked += (asked.empty() ? "" : " · ") + fmt::format("{} {}", name, *degree);
  }
  if (part && product > *flags.max_gpus) {
    throw core::ConfigError(fmt::format("{} needs {:.0f} devices; --max-gpus allows {}", asked,
                                        product, *flags.max_gpus));
  }
  if (part || std::fmod(devices, product) == 0) return;
  throw core::ConfigError(fmt::format(
      "{} = {:.0f} ways do not divide the {} devices of the cluster", asked, product, devices));
}

/// @throws ConfigError for options that would be passed over.
void require_no_contradiction(const PlanFlags& flags, const PlanQuestion& question) {
  if (flags.pareto && flags.output) {
    throw core::ConfigError(
        "--pareto shows plans of several parts of the cluster and writes none; leave out -o, or "
        "use "
        "--max-gpus with the devices of the part that you want");
  }
  if (flags.pareto && !flags.compare.empty()) {
    throw core::ConfigError(
        "--pareto shows plans of several parts of the cluster; --compare is for one");
  }
  if (question.model.transformer) return;
  if (!flags.compare.empty()) {
    throw core::ConfigError(question.model.name +
                            " is a click-through model; --compare is for transformers");
  }
  if (flags.max_memory || any(conditions_of(flags))) {
    throw core::ConfigError(
        question.model.name +
        " is a click-through model; of what plans must be like it takes --max-gpus only");
  }
}

/// The cluster's part that a plan was written for.
fs::path part_beside(const fs::path& plan) {
  return plan.parent_path() / (plan.stem().string() + "-cluster.toml");
}

/// Neither the plan nor the part of the cluster beside it may take the place of what is read.
void check_outputs(const PlanFlags& flags) {
  std::vector<fs::path> read = {flags.model, flags.cluster, flags.job};
  read.insert(read.end(), flags.compare.begin(), flags.compare.end());
  check_writable(*flags.output, read);
  if (flags.max_gpus) check_writable(part_beside(*flags.output), read);
}

/// Where only a part of the cluster is used, that part is written beside the plan.
void write_chosen(const PlanFlags& flags, const PlanQuestion& question, core::Plan plan) {
  const fs::path file(*flags.output);
  plan.name = file.stem().string();
  plan.model = beside(file, flags.model);
  plan.job = beside(file, flags.job);
  plan.cluster = beside(file, flags.cluster);
  if (question.cluster.devices() < question.whole_cluster_devices) {
    const fs::path part = part_beside(file);
    const int devices = question.cluster.devices();
    core::write_cluster_part(part, fmt::format("{}, {} devices", question.cluster.name, devices),
                             beside(file, flags.cluster), devices);
    plan.cluster = part.filename().string();
  }
  core::write_plan(file, plan);
}

/// The part of the cluster that is searched: where fewer devices are asked for, the part whose best
/// plan is fastest.
core::Cluster searched_part(const PlanQuestion& question, const PlanFlags& flags,
                            const study::PlanStudyOptions& options) {
  if (!flags.max_gpus || *flags.max_gpus >= question.cluster.devices()) return question.cluster;
  const auto parts = study::best_of_parts(question.model, question.cluster, question.job, options,
                                          *flags.max_gpus);
  if (parts.empty()) {
    // Whoever searches the largest part says what is missing.
    const auto sizes = costmodel::part_sizes(question.cluster, *flags.max_gpus);
    return core::part_of(question.cluster, sizes.back());
  }
  return std::min_element(parts.begin(), parts.end(),
                          [](const auto& a, const auto& b) {
                            return a.best.estimate.step < b.best.estimate.step;
                          })
      ->part;
}

void print_front(const PlanQuestion& question, const PlanFlags& flags,
                 const study::PlanStudyOptions& options) {
  const auto front = costmodel::pareto_front(
      study::best_of_parts(question.model, question.cluster, question.job, options,
                           flags.max_gpus.value_or(question.cluster.devices())));
  if (front.empty()) throw core::SystemError("no plan fits on any part of the cluster");
  if (flags.json) {
    fmt::print("{}\n", front_json(question, front).dump(2));
  } else {
    fmt::print("{} on parts of {}\n\n{}", question.model.name, question.cluster.name,
               front_text(question, front));
  }
}

/// The plans of --compare, estimated.
std::vector<study::ComparedPlan> compared_plans(const PlanQuestion& question,
                                                const PlanFlags& flags) {
  std::vector<study::ComparedPlan> plans;
  for (const std::string& file : flags.compare) {
    const core::Plan plan =
        study::read_plan_for(file, question.model, question.cluster, question.job);
    const std::string name = plan.name.empty() ? fs::path(file).stem().string() : plan.name;
    plans.push_back(study::estimated(name, plan, question.model, question.cluster, question.job));
  }
  return plans;
}

/// The best plan of the search, then those of --compare, all simulated.
std::vector<study::ComparedPlan> side_by_side(const PlanQuestion& question,
                                              const costmodel::SearchResult& result,
                                              std::vector<study::ComparedPlan> compared,
                                              Progress& progress) {
  for (std::size_t i = 0; i < compared.size(); ++i) compared[i].faster = result.faster[i];
  compared.insert(compared.begin(),
                  study::estimated("best found", result.ranked.front().plan, question.model,
                                   question.cluster, question.job));
  for (study::ComparedPlan& plan : compared) {
    progress.say("simulating " + plan.name);
    study::simulate_and_count(plan, question.model, question.cluster, question.job);
  }
  return compared;
}

costmodel::SearchResult search(const PlanQuestion& question,
                               const study::PlanStudyOptions& options) {
  costmodel::SearchResult result =
      study::study_plans(question.model, question.cluster, question.job, options);
  if (!result.ranked.empty()) return result;
  if (result.candidates == 0 && any(options.conditions)) {
    throw core::ConfigError("no plan is as was asked for: " + result.nothing_fits);
  }
  throw core::SystemError("no plan fits: " + result.nothing_fits);
}

/// CLI::Range lets pass what compares with nothing.
std::string finite_text(const std::string& text) {
  return std::isfinite(std::strtod(text.c_str(), nullptr)) ? "" : text + " is not a finite number";
}

void declare_conditions(CLI::App& command, PlanFlags& flags) {
  const std::string group = "What the plans must be like";
  const auto degree = [&](const char* name, std::optional<int>& value, const char* text) {
    command.add_option(name, value, text)->check(CLI::Range(1, 10'000'000))->group(group);
  };
  degree("--max-gpus", flags.max_gpus, "At most so many devices: the first nodes of the cluster");
  command.add_option("--max-memory", flags.max_memory, "At most so much of a device, \"40 GiB\"")
      ->group(group);
  degree("--data", flags.data, "Replicas, outside sharding");
  degree("--tensor", flags.tensor, "Tensor-parallel ways");
  degree("--pipeline", flags.pipeline, "Pipeline stages");
  degree("--context", flags.context, "Context-parallel ways");
  degree("--expert", flags.expert, "Ranks of different samples that hold different experts");
  degree("--expert-tensor", flags.expert_tensor, "Tensor ranks that share each expert");
  command
      .add_option("--expert-capacity", flags.expert_capacity,
                  "Slots of an expert over an even share of the rows; 1 is perfect balance")
      ->check(CLI::Range(0.01, 1e5) & CLI::Validator(finite_text, "FINITE"))
      ->group(group);
  degree("--sharding", flags.sharding, "Ranks that share optimizer state (and more)");
  command.add_option("--sharding-stage", flags.sharding_stage, "ZeRO stage; 0 is none")
      ->check(CLI::Range(0, 3))
      ->group(group);
  degree("--virtual-stages", flags.virtual_stages, "Chunks of layers on each stage");
  degree("--microbatch", flags.microbatch, "Sequences of a microbatch");
  const auto choice = [&](const char* name, std::optional<std::string>& value,
                          const std::vector<std::string>& names) {
    command.add_option(name, value)->check(CLI::IsMember(names))->group(group);
  };
  choice("--schedule", flags.schedule, {"gpipe", "1f1b", "interleaved", "zb-h1", "zb-1p", "zb-2p"});
  choice("--recompute", flags.recompute, {"none", "selective", "full"});
  choice("--sequence-parallel", flags.sequence_parallel, {"yes", "no"});
}

}  // namespace

CLI::App* declare_plan(CLI::App& app, PlanFlags& flags) {
  CLI::App* command =
      app.add_subcommand("plan", "Finds the fastest layouts of a job on a cluster.");
  command
      ->add_option("--model", flags.model,
                   "Hugging Face config.json or its folder, or a click-through model (TOML)")
      ->required();
  command->add_option("--cluster", flags.cluster, "Cluster file (TOML)")->required();
  command->add_option("--job", flags.job, "Job file (TOML)")->required();
  command->add_option("--top", flags.top, "Plans to show")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--simulate", flags.simulate, "Plans to simulate, of the best by estimate")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  command->add_flag("--explain", flags.explain,
                    "Say what the best plan's time and memory consist of, and why others lost");
  command->add_option("-o,--output", flags.output, "Write the plan (TOML)");
  command->add_option("--pick", flags.pick, "Which of the plans to write, 1 is the best")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--compare", flags.compare,
                      "Plan files to set beside the best plan, for this model, cluster and job");
  command->add_flag("--pareto", flags.pareto,
                    "Instead: the best plans of parts of the cluster that no other beats in time, "
                    "devices and money");
  command->add_flag("--json", flags.json, "Print JSON");
  declare_conditions(*command, flags);
  command->footer(
      "Example:\n  orrery plan --model configs/models/llama-3-70b \\\n"
      "    --cluster configs/clusters/dgx-h100-64.toml \\\n"
      "    --job configs/jobs/llama-3-70b.toml --top 5 -o plan.toml");
  return command;
}

void run_plan(const PlanFlags& flags) {
  PlanQuestion question{core::read_model(flags.model), core::read_cluster(flags.cluster),
                        core::read_job(flags.job)};
  question.whole_cluster_devices = question.cluster.devices();
  if (flags.output) check_outputs(flags);
  require_no_contradiction(flags, question);
  if (!flags.pareto) require_degrees_that_divide(flags, question);
  Progress progress;
  progress.say("searching plans");
  study::PlanStudyOptions options = study_options(flags, progress);
  if (flags.pareto) {
    print_front(question, flags, options);
    return;
  }
  question.cluster = searched_part(question, flags, options);
  std::vector<study::ComparedPlan> compared = compared_plans(question, flags);
  for (const study::ComparedPlan& plan : compared) options.place.push_back(plan.estimate.step);
  const costmodel::SearchResult result = search(question, options);
  const auto pick = static_cast<std::size_t>(flags.pick);
  if (pick > result.ranked.size()) {
    throw core::ConfigError(
        fmt::format("--pick {}: only {} plans fit", pick, result.ranked.size()));
  }
  if (flags.output) write_chosen(flags, question, result.ranked[pick - 1].plan);
  if (!compared.empty()) compared = side_by_side(question, result, std::move(compared), progress);
  const auto shown = std::min(result.ranked.size(), static_cast<std::size_t>(flags.top));
  if (flags.json) {
    nlohmann::json json = plans_json(question, result, shown);
    if (!compared.empty()) json["side_by_side"] = side_by_side_json(compared);
    fmt::print("{}\n", json.dump(2));
    return;
  }
  fmt::print("{} on {} ({} devices)\n\n{}", question.model.name, question.cluster.name,
             question.cluster.devices(), plans_text(question, result, shown));
  if (!compared.empty()) fmt::print("{}", side_by_side_text(compared));
  if (flags.explain) {
    fmt::print("{}{}", explanation_text(question, result),
               constants_text(core::read_constants(flags.cluster)));
  }
  if (!flags.output) return;
  fmt::print("\nplan: {}\n", *flags.output);
  if (question.cluster.devices() < question.whole_cluster_devices) {
    fmt::print("its part of the cluster: {}\n", part_beside(*flags.output).string());
  }
}

}  // namespace orrery::app
