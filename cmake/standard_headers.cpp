#include "cmake/standard_headers.hpp"
