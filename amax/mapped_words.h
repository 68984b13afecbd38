// A few words of host memory that a GPU reads and writes in place.
//
// The host sees what a kernel wrote without asking the device, and a kernel
// sees what the host wrote while it runs. Move-only owner; the device's work on
// the words must be over when it is destroyed. CUDA devices only.
//
// Example:
//   SK_ASSIGN_OR_RETURN(MappedWords words, MappedWords::Allocate(device, 4));
//   Launch(words.device_address());
//   if (words.Load(0) != 0) ...
#ifndef SCALEKEEPER_AMAX_MAPPED_WORDS_H_
#define SCALEKEEPER_AMAX_MAPPED_WORDS_H_

#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "base/device.h"

namespace scalekeeper {

class MappedWords {
 public:
  MappedWords() = default;
  MappedWords(MappedWords&& other) noexcept { *this = std::move(other); }
  MappedWords& operator=(MappedWords&& other) noexcept {
    std::swap(words_, other.words_);
    std::swap(address_, other.address_);
    return *this;
  }
  ~MappedWords();

  // `count` words, all 0. Unimplemented in a build without CUDA.
  static absl::StatusOr<MappedWords> Allocate(const Device& device, int count);

  uint32_t Load(int i) const {
    return __atomic_load_n(words_ + i, __ATOMIC_ACQUIRE);
  }
  void Store(int i, uint32_t value) {
    __atomic_store_n(words_ + i, value, __ATOMIC_RELEASE);
  }
  // The device may still use them: they are not freed any more.
  void Abandon() { words_ = nullptr; }
  // Null when empty.
  uint32_t* device_address() const { return address_; }

 private:
  uint32_t* words_ = nullptr;
  uint32_t* address_ = nullptr;
};

}  // namespace scalekeeper

#endif  // SCALEKEEPER_AMAX_MAPPED_WORDS_H_
