#include "topology/channel_speeds.h"

namespace paceline {

float nvlink_rate(int compute_capability, int version) {
  const float volta = version >= 218 ? 20 : version >= 210 ? 22 : 21;
  if (compute_capability >= 100 && version >= 225) {
    return version >= 227 ? 40.1F : 40;
  }
  if (compute_capability >= 90 && version >= 218) {
    return version >= 220 ? 20.6F : 20;
  }
  return compute_capability == 86 ? 12 : compute_capability >= 60 && compute_capability < 70 ? 18 : volta;
}

namespace {

using Speeds = std::vector<float>;

Speeds speeds_sm100(int version, bool several_nodes) {
  if (!several_nodes) {
    return version >= 229   ? Speeds{90, 80, 70, 60, 50, 45, 40, 30, 24, 20, 19, 18}
           : version >= 227 ? Speeds{90, 80, 70, 60, 50, 40, 30, 24, 20, 19, 18}
                            : Speeds{90, 80, 70, 60, 50, 40, 30, 24, 20, 19};
  }
  Speeds speeds = version >= 230   ? Speeds{96, 86, 80, 48, 45.1F}
                  : version >= 229 ? Speeds{96, 80, 48, 45.1F}
                  : version >= 227 ? Speeds{96, 48, 45.1F}
                                   : Speeds{48, 45};
  const Speeds rest{42, 40, 30, 24, 22, 20, 17.5F, 15, 12, 6, 3, 2.4F, 1.2F, 0.24F, 0.12F};
  speeds.insert(speeds.end(), rest.begin(), rest.end());
  return speeds;
}

Speeds speeds_sm90(int version, bool several_nodes) {
  if (!several_nodes) {
    return version >= 221   ? Speeds{60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3}
           : version >= 219 ? Speeds{60, 50, 40, 30, 24, 20, 15, 12, 6, 3}
           : version >= 218 ? Speeds{60, 40, 30, 24, 20, 15, 12, 6, 3}
                            : Speeds{66, 33, 24, 20, 15, 12, 6, 3};
  }
  Speeds speeds = version >= 219   ? Speeds{48, 45, 42, 40, 30, 24, 22, 20, 17.5F, 15}
                  : version >= 218 ? Speeds{48, 45, 42, 40, 30, 24, 20, 17.5F, 15}
                                   : Speeds{48, 45, 30, 24, 15};
  const Speeds rest{12, 6, 3, 2.4F, 1.2F, 0.24F, 0.12F};
  speeds.insert(speeds.end(), rest.begin(), rest.end());
  return speeds;
}

Speeds speeds_before_sm90(int version, bool several_nodes) {
  if (version < 210) {
    Speeds speeds = version >= 208   ? Speeds{42, 30, 24, 21, 18}
                    : version >= 207 ? Speeds{42, 24, 21, 18}
                                     : Speeds{24, 21, 18};
    const Speeds rest{15, 12, 10, 9, 7, 6, 5, 4, 3, 2.4F, 1.2F, 0.24F, 0.12F};
    speeds.insert(speeds.end(), rest.begin(), rest.end());
    return speeds;
  }
  const float link = version >= 218 ? 20 : 22;
  if (!several_nodes) {
    return {2 * link, 30, link, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3};
  }
  Speeds speeds = version >= 215 ? Speeds{48, 30, 28, 24, link} : Speeds{48, 30, 24, link};
  const Speeds rest{18, 15, 12, 10, 9, 7, 6, 5, 4, 3, 2.4F, 1.2F, 0.24F, 0.12F};
  speeds.insert(speeds.end(), rest.begin(), rest.end());
  return speeds;
}

}  // namespace

std::vector<float> candidate_speeds(int compute_capability, int version, bool several_nodes) {
  return compute_capability >= 100 && version >= 225  ? speeds_sm100(version, several_nodes)
         : compute_capability >= 90 && version >= 216 ? speeds_sm90(version, several_nodes)
                                                      : speeds_before_sm90(version, several_nodes);
}

}  // namespace paceline
