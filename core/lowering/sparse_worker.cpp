#include <cmath>
#include <string>
#include <vector>

#include "core/lowering/lowering_sparse.h"
#include "core/lowering/sparse_roles.h"

namespace orrery::core {
namespace {

constexpr int kElementBytes = 4;  // Float32 throughout.

/// One layer of the MLP: y = x·wᵀ + b, followed by a ReLU except the last.
struct MlpLayer {
  std::int64_t in = 0, out = 0;
  View weight, bias, weight_grad, bias_grad;
  BufferId linear;                    // F[samples, out]
  std::optional<BufferId> activated;  // relu(linear), absent for the last layer
  BufferId linear_grad;
  std::optional<BufferId> activated_grad;

  BufferId output() const { return activated.value_or(linear); }
  BufferId output_grad() const { return activated_grad.value_or(linear_grad); }
};

/// Writes a worker's buffers and blocks into its role.
class Worker : private RoleWriter {
 public:
  Worker(Role& role, const SparseShape& shape) : RoleWriter(role), shape_(shape) {
    width_ = shape.embedding.width();
    add_parameters();
    add_run_buffers();
    add_slice_buffers();
    add_layers();
  }

  BlockId begin() {
    BlockBuilder block(role_, "begin", kElementBytes);
    block.compute("loss", Zero{1}, {}, {all(loss_)});
    block.compute("gradients", Zero{elements()}, {}, {all(gradients_)});
    return add_block(block);
  }

  BlockId pull() {
    BlockBuilder block(role_, "pull", kElementBytes);
    block.set_pass(Pass::Load);
    block.compute("samples",
                  LoadSamples{shape_.samples, shape_.model.dense_features, shape_.lookups()}, {},
                  {all(labels_), all(dense_), all(ids_)}, Stream::Host);
    block.compute("unique keys", UniqueKeys{shape_.slice_lookups()}, {all(ids_)},
                  {all(keys_), all(inverse_), all(count_)}, Stream::Host);
    block.set_pass(Pass::Forward);
    Instruction pull;
    pull.label = "pull";
    pull.operation = Pull{kServersSlot, width_, expected_keys(shape_.embedding, shape_.samples)};
    pull.stream = Stream::ParameterServer;
    pull.reads = {all(keys_), all(count_)};
    pull.writes = {all(rows_)};
    block.add(std::move(pull));
    return add_block(block);
  }

  BlockId train() {
    BlockBuilder block(role_, "train", kElementBytes);
    if (slice_gradients_) {
      block.compute("slice gradients", Zero{elements()}, {}, {all(*slice_gradients_)});
    }
    forward(block);
    backward(block);
    weight_gradients(block);
    return add_block(block);
  }

  BlockId update() {
    BlockBuilder block(role_, "update", kElementBytes);
    block.set_pass(Pass::OptimizerStep);
    if (shape_.workers > 1) {
      block.collective("gradients", CollectiveKind::AllReduce, kWorkersSlot, all(gradients_),
                       Stream::Data);
      block.collective("loss", CollectiveKind::AllReduce, kWorkersSlot, all(loss_), Stream::Data);
    }
    block.compute("square sum", Zero{1}, {}, {all(square_sum_)});
    block.compute("gradient norm", SquaredNorm{elements()}, {all(gradients_)}, {all(square_sum_)});
    block.compute("gradient norm", ClipFactor{false, 0.0}, {all(square_sum_)}, {all(norm_)});
    std::vector<View> reads = {all(gradients_), all(norm_), all(values_)};
    std::vector<View> writes = {all(values_)};
    for (const BufferId state : role_.parameters.optimizer_state) {
      reads.push_back(all(state));
      writes.push_back(all(state));
    }
    block.compute("dense parameters", OptimizerUpdate{elements(), shape_.dense_optimizer}, reads,
                  writes);
    return add_block(block);
  }

 private:
  // ---- parameters ------------------------------------------------------------------------

  /// Appends a tensor; its range in the flat buffer follows from the order of the calls.
  void tensor(std::string name, std::vector<std::int64_t> shape, double stddev) {
    ParameterTensor t;
    t.name = std::move(name);
    t.global_shape = shape;
    t.local_shape = std::move(shape);
    t.offset = elements();
    t.initial_stddev = stddev;
    std::int64_t count = 1;
    for (const std::int64_t extent : t.local_shape) count *= extent;
    role_.parameters.elements += count;
    role_.parameters.tensors.push_back(std::move(t));
  }

  /// σ = √(2/in) before a ReLU, √(1/in) before the logit; the linear part starts at 0.
  /// Source: He et al., arXiv 1502.01852, section 2.2; LeCun et al., Efficient BackProp,
  /// section 4.6.
  void add_parameters() {
    tensor("bias", {1}, 0.0);
    if (shape_.model.wide) tensor("wide_dense.weight", {1, shape_.model.dense_features}, 0.0);
    const std::vector<std::int64_t> widths = mlp_widths();
    for (std::size_t k = 0; k + 1 < widths.size(); ++k) {
      const bool last = k + 2 == widths.size();
      const std::string name = "mlp." + std::to_string(k);
      tensor(name + ".weight", {widths[k + 1], widths[k]},
             std::sqrt((last ? 1.0 : 2.0) / static_cast<double>(widths[k])));
      tensor(name + ".bias", {widths[k + 1]}, 0.0);
    }
  }

  /// Input, hidden layers, 1.
  std::vector<std::int64_t> mlp_widths() const {
    std::vector<std::int64_t> widths = {mlp_input_width()};
    for (const int hidden : shape_.model.mlp) widths.push_back(hidden);
    widths.push_back(1);
    return widths;
  }

  std::int64_t mlp_input_width() const {
    return shape_.model.dense_features + std::int64_t{shape_.lookups()} * shape_.embedding.dim;
  }

  std::int64_t elements() const { return role_.parameters.elements; }

  // ---- buffers ---------------------------------------------------------------------------

  void add_run_buffers() {
    const std::int64_t n = elements();
    values_ = buffer("parameters", {n}, BufferKind::Parameters, BufferScope::Run);
    gradients_ = buffer("gradients", {n}, BufferKind::Gradients, BufferScope::Run);
    role_.parameters.values = values_;
    role_.parameters.gradients = gradients_;
    for (int k = 0; k < optimizer_state_count(shape_.dense_optimizer.kind); ++k) {
      role_.parameters.optimizer_state.push_back(buffer("optimizer state " + std::to_string(k), {n},
                                                        BufferKind::OptimizerState,
                                                        BufferScope::Run));
    }
    loss_ = buffer("loss", {1}, BufferKind::Statistics, BufferScope::Run);
    square_sum_ = buffer("square sum", {1}, BufferKind::Statistics, BufferScope::Run);
    norm_ = buffer("gradient norm", {2}, BufferKind::Statistics, BufferScope::Run);
    role_.loss = loss_;
    role_.norm = norm_;
    // Sums over slices are (g0 + g1) + ..., as over workers: a slice's gradients are complete
    // before they are added.
    if (shape_.slices > 1) {
      slice_gradients_ = buffer("slice gradients", {n}, BufferKind::Gradients, BufferScope::Run);
    }
  }

  void add_slice_buffers() {
    const auto slice = BufferScope::Microbatch;
    const std::int64_t lookups = shape_.slice_lookups();
    labels_ = buffer("labels", {shape_.samples}, BufferKind::Input, slice);
    dense_ = buffer("dense features", {shape_.samples, shape_.model.dense_features},
                    BufferKind::Input, slice);
    ids_ = buffer("ids", {shape_.samples, shape_.lookups()}, BufferKind::Input, BufferScope::Call,
                  DType::Int32);
    count_ = buffer("unique keys", {1}, BufferKind::Statistics, slice, DType::Int32);
    keys_ = buffer("keys", {lookups}, BufferKind::Input, slice, DType::Int32);
    inverse_ = buffer("inverse", {lookups}, BufferKind::Input, slice, DType::Int32);
    rows_ = buffer("rows", {lookups, width_}, BufferKind::Communication, slice);
    const auto call = BufferScope::Call;
    const auto activations = BufferKind::Activations;
    embedded_ = buffer("embedded", {lookups, width_}, activations, call);
    embedded_grad_ = buffer("embedded gradient", {lookups, width_}, activations, call);
    // One for the run: a slice's gradients are pushed before the next slice's are summed.
    row_grads_ =
        buffer("row gradients", {lookups, width_}, BufferKind::Communication, BufferScope::Run);
    mlp_input_ = buffer("mlp input", {shape_.samples, mlp_input_width()}, activations, call);
    mlp_input_grad_ =
        buffer("mlp input gradient", {shape_.samples, mlp_input_width()}, activations, call);
    shallow_ = buffer("shallow logit", {shape_.samples}, activations, call);
  }

  void add_layers() {
    const std::vector<std::int64_t> widths = mlp_widths();
    const std::size_t first = shape_.model.wide ? 2 : 1;  // Tensors before the MLP's.
    for (std::size_t k = 0; k + 1 < widths.size(); ++k) {
      const std::string name = "mlp." + std::to_string(k);
      MlpLayer layer;
      layer.in = widths[k];
      layer.out = widths[k + 1];
      layer.weight = tensor_view(values_, first + 2 * k);
      layer.bias = tensor_view(values_, first + 2 * k + 1);
      layer.weight_grad = tensor_view(gradient_target(), first + 2 * k);
      layer.bias_grad = tensor_view(gradient_target(), first + 2 * k + 1);
      const std::vector<std::int64_t> extents = {shape_.samples, layer.out};
      const auto activation = [&](const std::string& what) {
        return buffer(name + what, extents, BufferKind::Activations, BufferScope::Call);
      };
      layer.linear = activation(" linear");
      layer.linear_grad = activation(" linear gradient");
      if (k + 2 < widths.size()) {
        layer.activated = activation(" activated");
        layer.activated_grad = activation(" activated gradient");
      }
      layers_.push_back(std::move(layer));
    }
  }

  BufferId gradient_target() const { return slice_gradients_.value_or(gradients_); }

  View tensor_view(BufferId flat, std::size_t index) const {
    const ParameterTensor& t = role_.parameters.tensors[index];
    std::int64_t count = 1;
    for (const std::int64_t extent : t.local_shape) count *= extent;
    return {flat, t.offset, count, std::nullopt};
  }

  // ---- the train block -------------------------------------------------------------------

  void forward(BlockBuilder& block) {
    block.set_pass(Pass::Forward);
    block.compute("embedding", GatherRows{shape_.slice_lookups(), width_},
                  {all(rows_), all(inverse_)}, {all(embedded_)});
    std::vector<View> reads = {all(embedded_), all(dense_), tensor_view(values_, 0)};
    if (shape_.model.wide) reads.push_back(tensor_view(values_, 1));
    block.compute("interaction", interaction<Interact>(), reads, {all(mlp_input_), all(shallow_)});
    BufferId input = mlp_input_;
    for (std::size_t k = 0; k < layers_.size(); ++k) {
      const MlpLayer& layer = layers_[k];
      const std::string name = "mlp." + std::to_string(k);
      block.compute(name, Linear{shape_.samples, layer.out, layer.in, true},
                    {all(input), layer.weight, layer.bias}, {all(layer.linear)});
      if (layer.activated) {
        block.compute(name + ".relu", Activate{shape_.samples, layer.out, ActivationKind::Relu},
                      {all(layer.linear)}, {all(*layer.activated)});
      }
      input = layer.output();
    }
    const double scale = 1.0 / static_cast<double>(shape_.global_samples());
    block.compute("loss", LogisticLoss{shape_.samples, scale},
                  {all(shallow_), all(layers_.back().linear), all(labels_)},
                  {all(layers_.back().linear_grad), all(loss_)});
  }

  /// Down to the rows first, so that the push overlaps the weight gradients.
  void backward(BlockBuilder& block) {
    block.set_pass(Pass::Backward);
    for (std::size_t k = layers_.size(); k-- > 0;) {
      const MlpLayer& layer = layers_[k];
      const std::string name = "mlp." + std::to_string(k);
      if (layer.activated) {
        block.compute(name + ".relu", ActivateGrad{shape_.samples, layer.out, ActivationKind::Relu},
                      {all(*layer.activated_grad), all(layer.linear)}, {all(layer.linear_grad)});
      }
      const BufferId input_grad = k == 0 ? mlp_input_grad_ : layers_[k - 1].output_grad();
      block.compute(name, LinearInputGrad{shape_.samples, layer.out, layer.in, false},
                    {all(layer.linear_grad), layer.weight}, {all(input_grad)});
    }
    std::vector<View> writes = {all(embedded_grad_), tensor_view(gradient_target(), 0)};
    if (shape_.model.wide) writes.push_back(tensor_view(gradient_target(), 1));
    block.compute(
        "interaction", interaction<InteractGrad>(),
        {all(layers_.back().linear_grad), all(mlp_input_grad_), all(embedded_), all(dense_)},
        writes);
    block.compute("embedding", SumRowGrads{shape_.slice_lookups(), width_},
                  {all(embedded_grad_), all(inverse_), all(count_)}, {all(row_grads_)});
    Instruction push;
    push.label = "push";
    push.operation = Push{kServersSlot, width_, expected_keys(shape_.embedding, shape_.samples)};
    push.stream = Stream::ParameterServer;
    push.reads = {all(keys_), all(count_), all(row_grads_)};
    block.add(std::move(push));
  }

  void weight_gradients(BlockBuilder& block) {
    block.set_pass(Pass::WeightGrad);
    for (std::size_t k = layers_.size(); k-- > 0;) {
      const MlpLayer& layer = layers_[k];
      const BufferId input = k == 0 ? mlp_input_ : layers_[k - 1].output();
      block.compute("mlp." + std::to_string(k),
                    LinearWeightGrad{shape_.samples, layer.out, layer.in, true},
                    {all(layer.linear_grad), all(input)}, {layer.weight_grad, layer.bias_grad});
    }
    if (slice_gradients_) {
      block.compute("sum over slices", Add{1, elements(), false},
                    {all(gradients_), all(*slice_gradients_)}, {all(gradients_)});
    }
  }

  template <class Op>
  Op interaction() const {
    return {shape_.samples,       shape_.model.dense_features, shape_.lookups(),
            shape_.embedding.dim, shape_.model.wide,           shape_.model.interaction};
  }

  const SparseShape& shape_;
  int width_ = 0;
  BufferId values_, gradients_, loss_, square_sum_, norm_;
  std::optional<BufferId> slice_gradients_;
  BufferId labels_, dense_, ids_, keys_, inverse_, count_, rows_;
  BufferId embedded_, embedded_grad_, row_grads_, mlp_input_, mlp_input_grad_, shallow_;
  std::vector<MlpLayer> layers_;
};

}  // namespace

WorkerBlocks add_worker(Role& role, const SparseShape& shape) {
  Worker worker(role, shape);
  WorkerBlocks blocks;
  blocks.begin = worker.begin();
  blocks.pull = worker.pull();
  blocks.train = worker.train();
  blocks.update = worker.update();
  return blocks;
}

}  // namespace orrery::core
