// One switch that never is full:
//
//   card ──▶ switch ──▶ card

#include <optional>

#include "core/network/family/families.h"

namespace orrery::core::family {
namespace {

class Star : public NetworkFamily {
 public:
  int switch_of(int /*node*/, const NodeType& /*type*/, int /*card*/,
                GraphBuilder& graph) override {
    if (!switch_) switch_ = graph.vertex(kLeafLevel);
    return *switch_;
  }

 private:
  std::optional<int> switch_;
};

}  // namespace

std::unique_ptr<NetworkFamily> star() { return std::make_unique<Star>(); }

}  // namespace orrery::core::family
