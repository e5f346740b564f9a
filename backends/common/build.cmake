# What backends/common needs beside the rooms' packages: Highway, for the vector library.
keel_use_highway(${room_target})
