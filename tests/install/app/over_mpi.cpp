// SPDX-License-Identifier: Apache-2.0
#include <cairn/comm/mpi_group.hpp>

int main(int argc, char** argv) {
    int provided = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    { cairn::mpi_group ranks(MPI_COMM_WORLD); }
    return MPI_Finalize();
}
