#pragma once

/// Runs the test cases of this executable as the arguments ask for; the exit code.
int run_tests(int argc, char** argv);
