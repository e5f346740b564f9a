// KEEL_API marks what the shared library exports; everything else is hidden. KEEL_BUILDING is set
// while the library itself is compiled. Plugins and users see default visibility so that typeinfo
// is shared.
#ifndef KEEL_CORE_BASE_EXPORT_H
#define KEEL_CORE_BASE_EXPORT_H

#define KEEL_API __attribute__((visibility("default")))

#endif  // KEEL_CORE_BASE_EXPORT_H
