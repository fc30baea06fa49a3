/*
 * Round trips, small messages and large messages between two ranks of MPI, each for a given time, as
 * the OSU micro-benchmarks measure them: round trips one at a time, messages in windows of 64 that the
 * receiver answers once.
 *
 * mpi_loop SIZE LARGE_SIZE SECONDS CPU_OF_RANK_0 CPU_OF_RANK_1     (a negative CPU: anywhere)
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW 64
#define SAMPLES_MAX (1 << 22)

static int rank;
static char *buffer;

static int compare(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

/* The first byte of a message says whether others follow. */
static double round_trip_us(int size, double seconds) {
    double *samples = malloc(SAMPLES_MAX * sizeof *samples);
    size_t count = 0;
    double end = MPI_Wtime() + seconds;
    for (;;) {
        if (rank == 0) {
            double asked = MPI_Wtime();
            buffer[0] = asked < end;
            char goes_on = buffer[0];
            MPI_Send(buffer, size, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
            MPI_Recv(buffer, size, MPI_CHAR, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (!goes_on) break;
            if (count < SAMPLES_MAX) samples[count++] = MPI_Wtime() - asked;
        } else {
            MPI_Recv(buffer, size, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(buffer, size, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
            if (!buffer[0]) break;
        }
    }
    double median = 0;
    if (count > 0) {
        qsort(samples, count, sizeof *samples, compare);
        median = samples[count / 2] * 1e6;
    }
    free(samples);
    return median;
}

static double messages_per_second(int size, double seconds) {
    MPI_Request requests[WINDOW];
    double began = MPI_Wtime(), end = began + seconds;
    double count = 0;
    char answer = 0;
    for (;;) {
        if (rank == 0) {
            buffer[0] = MPI_Wtime() < end;
            for (int i = 0; i < WINDOW; i++)
                MPI_Isend(buffer, size, MPI_CHAR, 1, 0, MPI_COMM_WORLD, &requests[i]);
            MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
            MPI_Recv(&answer, 1, MPI_CHAR, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            for (int i = 0; i < WINDOW; i++)
                MPI_Irecv(buffer, size, MPI_CHAR, 0, 0, MPI_COMM_WORLD, &requests[i]);
            MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
            MPI_Send(&answer, 1, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
        }
        count += WINDOW;
        if (!buffer[0]) break;
    }
    return count / (MPI_Wtime() - began);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc != 6 || ranks != 2) {
        fprintf(stderr, "mpi_loop: two ranks and five arguments are needed\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    int size = atoi(argv[1]), large = atoi(argv[2]), cpu = atoi(argv[4 + rank]);
    double seconds = atof(argv[3]);
    if (cpu >= 0) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(cpu, &set);
        if (sched_setaffinity(0, sizeof set, &set) != 0) {
            perror("mpi_loop: failed to pin");
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
    buffer = malloc(size > large ? size : large);
    memset(buffer, 7, size > large ? size : large);
    round_trip_us(size, seconds / 4);
    double round_trip = round_trip_us(size, seconds);
    messages_per_second(size, seconds / 4);
    double messages = messages_per_second(size, seconds);
    messages_per_second(large, seconds / 4);
    double large_messages = messages_per_second(large, seconds);
    if (rank == 0)
        printf("%.4f %.1f %.1f\n", round_trip, messages, large_messages * large);
    MPI_Finalize();
    return 0;
}
