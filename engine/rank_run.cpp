#include "engine/rank_run.h"

#include <omp.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "engine/message_tag.h"
#include "engine/safetensors.h"
#include "engine/store.h"
#include "engine/weights.h"

namespace orrery::engine {

namespace {

bool reports_loss(const core::Program& program, core::Rank rank) {
  for (int r = 0; r < static_cast<int>(program.ranks.size()); ++r) {
    if (program.role_of(core::Rank(r)).loss) return core::Rank(r) == rank;
  }
  return rank == core::Rank(0);
}

}  // namespace

void wait_until(Communicator& communicator, const std::function<bool()>& done) {
  while (true) {
    const std::uint64_t seen = communicator.activity();
    if (done()) return;
    communicator.wait(seen);
  }
}

void synchronize(Communicator& communicator, const core::Program& program, Arrival& arrival) {
  arrival.everyone.clear();
  for (int r = 0; r < static_cast<int>(program.ranks.size()); ++r) arrival.everyone.emplace_back(r);
  CollectiveCall call;
  call.members = arrival.everyone;
  call.position = communicator.rank().value;
  call.tag = tag_of(MessageTag::Report);
  call.in = call.out = &arrival.arrived;
  call.in_count = call.out_count = 1;
  arrival.exchange.start(communicator, call);
  wait_until(communicator, [&] { return arrival.exchange.poll(communicator); });
}

RankRun::RankRun(const core::Program& program, const core::Job& job, Communicator& communicator,
                 const ExecuteOptions& options, DataSources data,
                 std::chrono::steady_clock::time_point epoch)
    : program_(program),
      job_(job),
      communicator_(communicator),
      options_(options),
      interpreter_(program, job, communicator.rank(), communicator,
                   {.data = data,
                    .poison = options.poison,
                    .delay_seed = options.delay_seed,
                    .epoch = epoch}),
      reports_(reports_loss(program, communicator.rank())) {}

std::span<float> RankRun::run_floats(core::BufferId buffer) const {
  const auto elements = interpreter_.program().role->buffers[buffer.index()].elements();
  return {reinterpret_cast<float*>(interpreter_.run_buffer(buffer)),
          static_cast<std::size_t>(elements)};
}

void RankRun::set_weights() {
  std::optional<std::filesystem::path> path = options_.initial_weights;
  if (!path && job_.initial_weights) path = *job_.initial_weights;
  std::optional<SafetensorsFile> file;
  if (path) file.emplace(*path);
  set_parameters(file ? &*file : nullptr);
  set_shard(file ? &*file : nullptr);
}

void RankRun::set_parameters(const SafetensorsFile* file) {
  const core::Parameters& parameters = interpreter_.program().role->parameters;
  if (!parameters.values) return;
  if (job_.optimizer.kind == core::OptimizerKind::AdaGrad) {
    for (const core::BufferId state : parameters.optimizer_state) {
      std::ranges::fill(run_floats(state), static_cast<float>(job_.optimizer.initial_accumulator));
    }
  }
  float* values = run_floats(*parameters.values).data();
  std::vector<float> whole;
  if (!parameters.sharded.empty()) {
    whole.resize(static_cast<std::size_t>(parameters.elements));
    values = whole.data();
  }
  const TensorPlace place = tensor_place(program_, communicator_.rank());
  if (file != nullptr) {
    load_weights(parameters, place, *file, values);
  } else {
    draw_weights(parameters, place, job_.seed, values);
  }
  if (whole.empty()) return;
  cut_slices(held_parameters(program_, communicator_.rank()), whole.data(),
             run_floats(*parameters.values).data());
}

void RankRun::set_shard(const SafetensorsFile* file) {
  const RankProgram& rank = interpreter_.program();
  if (!rank.role->shard) return;
  const auto& state = rank.role->shard->state;
  Store store(*program_.embedding, rank.binding->server.value(), run_floats(rank.role->shard->rows),
              state ? run_floats(*state) : std::span<float>());
  if (file != nullptr) {
    store.initialize(*file, job_.sparse_optimizer.value());
  } else {
    store.initialize(job_.seed, job_.sparse_optimizer.value());
  }
}

void RankRun::run() {
  omp_set_num_threads(options_.threads);
  set_weights();
  const int steps = options_.steps.value_or(job_.steps);
  synchronize(communicator_, program_, arrival_);
  for (int step = 0; step < steps; ++step) {
    const double start = interpreter_.now();
    interpreter_.run_step(step, options_.profile && step >= options_.profile_from);
    keep(step, start, interpreter_.now());
  }
}

void RankRun::keep(int step, double start, double end) {
  result_.step_start.push_back(start);
  result_.step_end.push_back(end);
  const core::Role& role = *interpreter_.program().role;
  const auto value = [&](core::BufferId buffer) {
    return *reinterpret_cast<const float*>(interpreter_.run_buffer(buffer));
  };
  if (role.loss) result_.loss.push_back(value(*role.loss));
  if (!reports_ || !options_.on_step) return;
  StepReport report;
  report.step = step;
  report.seconds = end - start;
  if (role.loss) report.loss = static_cast<double>(value(*role.loss));
  if (role.norm) report.gradient_norm = static_cast<double>(value(*role.norm));
  options_.on_step(report);
}

RankResult RankRun::take_result() {
  interpreter_.take_records(result_.records, result_.memory);
  return std::move(result_);
}

const float* RankRun::parameters() const {
  const core::Parameters& parameters = interpreter_.program().role->parameters;
  if (!parameters.values) return nullptr;
  return reinterpret_cast<const float*>(interpreter_.run_buffer(*parameters.values));
}

std::span<const float> RankRun::shard_rows() const {
  const auto& shard = interpreter_.program().role->shard;
  return shard ? run_floats(shard->rows) : std::span<float>();
}

}  // namespace orrery::engine
