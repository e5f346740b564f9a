// A project of its own that knows Keel only from its installation.
#include <keel/keel.h>

#include <cstdio>

int main() { std::printf("keel %s\n", KEEL_VERSION); }
