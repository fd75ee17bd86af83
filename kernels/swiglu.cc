#include "kernels/swiglu.h"

#include "kernels/exp_float.h"

namespace fm::kernels::FM_SIMD {
namespace {

float sigmoid(float x) { return 1.0F / (1.0F + exp_float(-x)); }

}  // namespace

void swiglu(std::int64_t count, const float* gate, const float* up, float* y) {
  for (std::int64_t i = 0; i < count; ++i) y[i] = gate[i] * sigmoid(gate[i]) * up[i];
}

void swiglu_backward(std::int64_t count, const SwigluBackward& at) {
  const float* gate = at.gate;
  const float* up = at.up;
  const float* dy = at.dy;
  float* dgate = at.dgate;
  float* dup = at.dup;
  for (std::int64_t i = 0; i < count; ++i) {
    const float g = gate[i];
    const float s = sigmoid(g);
    const float d = dy[i];
    const float u = up[i];
    dup[i] = d * (g * s);
    dgate[i] = d * u * (s * (1.0F + g * (1.0F - s)));
  }
}

}  // namespace fm::kernels::FM_SIMD
