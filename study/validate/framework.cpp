#include "study/validate/framework.h"

namespace orrery::study {

void follow_framework(core::DensePlan& plan, const std::string& framework) {
  // Megatron-LM up to 2023 reduces its gradient buffer once, after the last microbatch
  // (megatron/model/distributed.py); Megatron-DeepSpeed likewise without its bucketing options.
  if (framework == "megatron" || framework == "megatron-deepspeed") {
    plan.overlap_gradients = false;
  }
}

}  // namespace orrery::study
