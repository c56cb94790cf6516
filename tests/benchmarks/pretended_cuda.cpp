// One CUDA device that does nothing. The CPU build of torch has none, so that its autograd refuses tensors that
// FakeTensorMode places on "cuda". Loaded before torch (LD_PRELOAD) by benchmarks/fake_gpu.py.
#include <ATen/DeviceAccelerator.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

constexpr auto CUDA = c10::DeviceType::CUDA;
static const c10::Stream stream() { return c10::Stream(c10::Stream::DEFAULT, {CUDA, 0}); }

// replaces the function of libtorch_cpu.so, which answers that there is none
namespace at::accelerator {
std::optional<c10::DeviceType> getAccelerator(bool) { return CUDA; }
}

struct Guard final : c10::impl::NoOpDeviceGuardImpl<CUDA> {
  c10::Device exchangeDevice(c10::Device) const override { return {CUDA, 0}; }
  c10::Device getDevice() const override { return {CUDA, 0}; }
  c10::Stream getStream(c10::Device) const noexcept override { return stream(); }
  c10::Stream exchangeStream(c10::Stream) const noexcept override { return stream(); }
  void record(void**, const c10::Stream&, c10::DeviceIndex, c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
};
static c10::impl::DeviceGuardImplRegistrar guard(CUDA, new Guard());

namespace at {
struct CUDAHooks final : CUDAHooksInterface {
  explicit CUDAHooks(CUDAHooksArgs) {}
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
};
REGISTER_CUDA_HOOKS(CUDAHooks)
}
