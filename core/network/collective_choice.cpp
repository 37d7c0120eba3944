#include "core/network/collective_choice.h"

#include "core/error.h"

namespace orrery::core {
namespace {

/// In Simple and in what other protocols the library has.
void add_protocols(MethodList& methods, CollectiveAlgorithm algorithm, const Collectives& costs) {
  methods.add(algorithm);
  if (costs.ll128) methods.add({algorithm, Protocol::LL128});
  if (costs.ll) methods.add({algorithm, Protocol::LL});
}

MethodList nccl_methods(const Collectives& costs, CollectiveKind kind, GroupShape shape) {
  MethodList methods;
  if (kind == CollectiveKind::AllToAll) {
    methods.add(CollectiveAlgorithm::Direct);
    return methods;
  }
  add_protocols(methods, CollectiveAlgorithm::Ring, costs);
  if (kind != CollectiveKind::AllReduce) return methods;
  add_protocols(methods, CollectiveAlgorithm::Tree, costs);
  if (costs.in_switch && shape.one_node) methods.add(CollectiveAlgorithm::InSwitch);
  if (costs.in_switch && shape.two_levels) methods.add(CollectiveAlgorithm::InSwitchTree);
  return methods;
}

}  // namespace

std::string_view algorithm_name(CollectiveAlgorithm algorithm) {
  switch (algorithm) {
    case CollectiveAlgorithm::Ring:
      return "ring";
    case CollectiveAlgorithm::Tree:
      return "tree";
    case CollectiveAlgorithm::Hierarchical:
      return "hierarchical";
    case CollectiveAlgorithm::Direct:
      return "direct";
    case CollectiveAlgorithm::Exchange:
      return "exchange";
    case CollectiveAlgorithm::InSwitch:
      return "in the switch";
    case CollectiveAlgorithm::InSwitchTree:
      return "in the switches, trees between nodes";
  }
  ORRERY_CHECK(false, "unknown algorithm");
}

CollectiveAlgorithm all_pairs_algorithm(CollectiveKind kind, Bytes bytes) {
  return kind == CollectiveKind::AllReduce && bytes <= kExchangeBytes
             ? CollectiveAlgorithm::Exchange
             : CollectiveAlgorithm::Direct;
}

MethodList methods_for(const Collectives& costs, CollectiveKind kind, Bytes bytes,
                       GroupShape shape) {
  switch (costs.library) {
    case CollectiveLibrary::Nccl:
      return nccl_methods(costs, kind, shape);
    case CollectiveLibrary::AllPairs: {
      MethodList methods;
      methods.add(all_pairs_algorithm(kind, bytes));
      return methods;
    }
  }
  ORRERY_CHECK(false, "unknown library");
}

ProtocolCost protocol_cost(const Collectives& costs, Protocol protocol) {
  switch (protocol) {
    case Protocol::Simple:
      return {};
    case Protocol::LL128:
      ORRERY_CHECK(costs.ll128.has_value(), "the library has no LL128");
      return *costs.ll128;
    case Protocol::LL:
      ORRERY_CHECK(costs.ll.has_value(), "the library has no LL");
      return *costs.ll;
  }
  ORRERY_CHECK(false, "unknown protocol");
}

}  // namespace orrery::core
