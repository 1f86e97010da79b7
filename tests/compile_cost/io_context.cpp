// SPDX-License-Identifier: Apache-2.0
// The measure: what Asio alone costs.
#include <boost/asio/io_context.hpp>

int main() {
    boost::asio::io_context c;
    c.run();
}
