#include "core/lowering/decoder_experts.h"

#include <string>

namespace orrery::core {

namespace {

/// Rows of this rank in a buffer that may have more.
View own(const DecoderBlock& block, BufferId id) {
  const StageShape& shape = block.shape();
  return {id, 0, shape.own_rows * shape.model.hidden, std::nullopt};
}

/// The slots of a layer's experts and how rows get there and back.
class ExpertLayer {
 public:
  ExpertLayer(DecoderBlock& block, int layer)
      : block_(block),
        shape_(block.shape()),
        scratch_(*block.buffers().expert),
        layer_(block.buffers().layers[static_cast<std::size_t>(layer)]),
        gradients_(block.buffers().gradients_of[static_cast<std::size_t>(layer)]),
        parameters_(shape_.parameters.layers[static_cast<std::size_t>(layer)]),
        number_(layer) {}

  void route() {
    const int k = shape_.model.experts_per_token;
    block_.normalize(label("norm2"), layer_.middle, layer_.norm2, layer_.norm2_statistics,
                     parameters_.norm2_weight, parameters_.norm2_bias);
    block_.compute(label("router"),
                   Linear{shape_.own_rows, shape_.model.experts, shape_.model.hidden, false},
                   {block_.all(layer_.norm2), block_.value(*parameters_.router)},
                   {block_.all(scratch_.logits)});
    block_.compute(label("router"),
                   ChooseExperts{shape_.own_rows, shape_.model.experts, k, shape_.capacity},
                   {block_.all(scratch_.logits)}, {weights(), places()});
    const BufferId slots = scratch_.sent.value_or(layer_.experts->input);
    block_.compute(label("dispatch"), moving<Dispatch>(), {block_.all(layer_.norm2), places()},
                   {block_.all(slots)});
    to_experts("dispatch", slots, layer_.experts->input);
  }

  void compute() {
    const BufferId output = scratch_.sent ? scratch_.output : layer_.experts->returned;
    block_.compute(label("up"), product<GroupedLinear>(shape_.up_width, shape_.model.hidden),
                   {block_.all(layer_.experts->input), block_.value(parameters_.up_weight)},
                   {block_.all(layer_.up)});
    block_.compute(label("activation"),
                   Activate{shape_.ffn_rows, shape_.ffn, shape_.model.activation},
                   {block_.all(layer_.up)}, {block_.all(layer_.activated)});
    block_.compute(label("down"), product<GroupedLinear>(shape_.model.hidden, shape_.ffn),
                   {block_.all(layer_.activated), block_.value(parameters_.down_weight)},
                   {block_.all(output)});
    to_rows("combine", output, layer_.experts->returned);
  }

  void combine() {
    const BufferId sum = block_.buffers().projected;
    block_.compute(label("combine"), moving<Combine>(),
                   {block_.all(layer_.experts->returned), weights(), places()}, {own(block_, sum)});
    block_.compute(label("residual2"), Add{shape_.own_rows, shape_.model.hidden, false},
                   {block_.all(layer_.middle), sum_of_parts("combine", sum)},
                   {block_.all(block_.buffers().y[static_cast<std::size_t>(number_)])});
  }

  /// The gradients of what the experts made and of the router's weights.
  void combine_grad() {
    const BufferId slots = scratch_.sent.value_or(*gradients_.expert_output);
    block_.compute(
        label("combine"), moving<CombineGrad>(),
        {block_.all(gradients_.output), block_.all(layer_.experts->returned), weights(), places()},
        {block_.all(slots), block_.all(scratch_.dweights)});
    to_experts("combine", slots, *gradients_.expert_output);
    // Beside the exchange.
    block_.compute(label("router"),
                   ChooseExpertsGrad{shape_.own_rows, shape_.model.experts,
                                     shape_.model.experts_per_token, shape_.capacity},
                   {block_.all(scratch_.dweights), weights(), places()},
                   {block_.all(*gradients_.router)});
    if (!shape_.splits) router_weight_grad();
  }

  void compute_grad() {
    const std::int64_t hidden = shape_.model.hidden;
    const BufferId dinput = scratch_.sent ? scratch_.dinput : scratch_.dslots;
    block_.compute(label("down"), product<GroupedLinearInputGrad>(hidden, shape_.ffn),
                   {block_.all(*gradients_.expert_output), block_.value(parameters_.down_weight)},
                   {block_.all(block_.buffers().dactivated)});
    if (!shape_.splits) down_weight_grad();
    block_.compute(label("activation"),
                   ActivateGrad{shape_.ffn_rows, shape_.ffn, shape_.model.activation},
                   {block_.all(block_.buffers().dactivated), block_.all(layer_.up)},
                   {block_.all(gradients_.up)});
    block_.compute(label("up"), product<GroupedLinearInputGrad>(shape_.up_width, hidden),
                   {block_.all(gradients_.up), block_.value(parameters_.up_weight)},
                   {block_.all(dinput)});
    to_rows("dispatch", dinput, scratch_.dslots);
    if (!shape_.splits) up_weight_grad();  // Beside the exchange.
  }

  void dispatch_grad() {
    const BufferId dnorm = block_.buffers().dnorm;
    block_.compute(label("dispatch"), moving<DispatchGrad>(),
                   {block_.all(scratch_.dslots), places()}, {own(block_, dnorm)});
    block_.compute(
        label("router"),
        LinearInputGrad{shape_.own_rows, shape_.model.experts, shape_.model.hidden, true},
        {block_.all(*gradients_.router), block_.value(*parameters_.router)}, {own(block_, dnorm)});
    block_.normalize_grad(label("norm2"),
                          {sum_of_parts("dispatch", dnorm), layer_.middle, layer_.norm2_statistics,
                           gradients_.output, gradients_.middle},
                          parameters_.norm2_weight, parameters_.norm2_bias);
  }

  void router_weight_grad() {
    weight_grad("router",
                LinearWeightGrad{shape_.own_rows, shape_.model.experts, shape_.model.hidden, false},
                *gradients_.router, layer_.norm2, *parameters_.router);
  }
  void down_weight_grad() {
    weight_grad("down", product<GroupedLinearWeightGrad>(shape_.model.hidden, shape_.ffn),
                *gradients_.expert_output, layer_.activated, parameters_.down_weight);
  }
  void up_weight_grad() {
    weight_grad("up", product<GroupedLinearWeightGrad>(shape_.up_width, shape_.model.hidden),
                gradients_.up, layer_.experts->input, parameters_.up_weight);
  }

 private:
  std::string label(const char* part) const { return shape_.layer_label(number_, part); }
  View weights() const { return block_.all(layer_.experts->weights); }
  View places() const { return block_.all(layer_.experts->places); }

  template <class Moving>
  Moving moving() const {
    return {shape_.own_rows, shape_.model.hidden, shape_.model.experts,
            shape_.model.experts_per_token, shape_.capacity};
  }
  template <class Product>
  Product product(std::int64_t out, std::int64_t in) const {
    return {shape_.local_experts, shape_.ffn_rows / shape_.local_experts, out, in};
  }
  /// From [parts, experts here, slots] to [experts here, parts, slots], or back.
  JoinSequences join(bool inverse) const {
    return {shape_.local_experts, shape_.ffn_rows / shape_.local_experts, shape_.model.hidden,
            shape_.expert_parts, inverse};
  }

  /// From the slots of this rank's rows to the experts' rows, unless they are the same.
  void to_experts(const char* part, BufferId slots, BufferId rows) {
    if (slots == rows) return;
    BufferId at = slots;
    if (shape_.slots.expert) {
      block_.exchange(label(part), *shape_.slots.expert, block_.all(at),
                      block_.all(*scratch_.received), Stream::Expert);
      at = *scratch_.received;
    }
    if (scratch_.gathered) {
      block_.gather(label(part), *shape_.slots.tensor, block_.all(at),
                    block_.all(*scratch_.gathered), Stream::Tensor);
      at = *scratch_.gathered;
    }
    block_.compute(label(part) + ".join", join(false), {block_.all(at)}, {block_.all(rows)});
  }

  void to_rows(const char* part, BufferId rows, BufferId slots) {
    if (slots == rows) return;
    const BufferId received = shape_.slots.expert ? *scratch_.received : slots;
    const BufferId cut = scratch_.gathered.value_or(received);
    block_.compute(label(part) + ".cut", join(true), {block_.all(rows)}, {block_.all(cut)});
    if (scratch_.gathered) {
      block_.scatter(label(part), *shape_.slots.tensor, block_.all(cut), block_.all(received),
                     Stream::Tensor);
    }
    if (shape_.slots.expert) {
      block_.exchange(label(part), *shape_.slots.expert, block_.all(received), block_.all(slots),
                      Stream::Expert);
    }
  }

  /// Of experts' outputs of which each rank of the tensor group has a part.
  View sum_of_parts(const char* part, BufferId id) {
    if (shape_.plan.sequence_parallel) return own(block_, id);
    return block_.reduce_tensor(label(part), id);
  }

  void weight_grad(const char* part, const Operator& op, BufferId dy, BufferId x,
                   ParameterRange weight) {
    block_.set_pass(Pass::WeightGrad);
    block_.compute(label(part), op, {block_.all(dy), block_.all(x)}, {block_.gradient(weight)});
    block_.set_pass(Pass::Backward);
  }

  DecoderBlock& block_;
  const StageShape& shape_;
  const ExpertScratch& scratch_;
  const LayerBuffers& layer_;
  const LayerGradients& gradients_;
  const LayerParameters& parameters_;
  int number_;
};

}  // namespace

void run_experts(DecoderBlock& block, int layer) {
  ExpertLayer experts(block, layer);
  experts.route();
  experts.compute();
}

void forward_experts(DecoderBlock& block, int layer) {
  run_experts(block, layer);
  ExpertLayer(block, layer).combine();
}

void backward_experts(DecoderBlock& block, int layer) {
  ExpertLayer experts(block, layer);
  experts.combine_grad();
  experts.compute_grad();
  experts.dispatch_grad();
}

void expert_weight_grads(DecoderBlock& block, int layer) {
  ExpertLayer experts(block, layer);
  experts.down_weight_grad();
  experts.up_weight_grad();
  experts.router_weight_grad();
}

}  // namespace orrery::core
