#pragma once
// How a training framework carries out one operator on a GPU: as one kernel or several, some of
// which stream memory beside the operator's own work (core::work_of). Eager PyTorch with the fused
// kernels that Megatron-LM has (bias and GeLU; bias, dropout and residual; scale, mask and softmax;
// normalisations) is taken as the rule. Plain attention comes with its dropout, as the models trained
// with it have; products in fp8 with the casts of what they read, as Transformer Engine does.

#include "core/model.h"
#include "core/operator.h"
#include "core/units.h"

namespace orrery::costmodel {

struct Kernels {
  int count = 1;       ///< Launched by the host, one after the other.
  core::Bytes beside;  ///< Memory traffic beyond Work::memory.
};

/// @source The kernels of each operator, counted by reading Megatron-LM (core_v0.1 to v0.4:
/// megatron/model/transformer.py, fused_*.py, core/tensor_parallel; is_kernel_available of
/// fused_softmax.py says which scores its softmax takes) and PyTorch's eager operators
/// (aten/src/ATen/native).
Kernels kernels_of(const core::Operator&, core::DType precision);

}  // namespace orrery::costmodel
