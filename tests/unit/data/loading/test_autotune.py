from mxtrain.data.loading.autotune import Autotuner


def grown(most, rate_of, consumer_rate, seconds=60.0):
    """The workers after so many seconds, when `rate_of(workers)` batches a second can be made."""
    tuner, now = Autotuner(most), 0.0
    while now < seconds:
        made, used = 1 / rate_of(tuner.num_workers), 1 / consumer_rate
        now += max(made, used)
        tuner.workers_to_add(waited=max(0.0, made - used), now=now)
    return tuner.num_workers


def test_workers_are_added_until_the_consumer_does_not_wait():
    assert grown(16, lambda workers: 10 * workers, consumer_rate=35) == 4
    assert grown(16, lambda workers: 10 * workers, consumer_rate=75) in (7, 8)
    assert grown(16, lambda workers: 10 * workers, consumer_rate=1000) == 16


def test_one_more_than_is_of_use_ends_it():
    assert grown(16, lambda workers: 10 * min(workers, 6), consumer_rate=1000) <= 8


def test_a_number_stays():
    tuner = Autotuner(3, grows=False)
    assert tuner.num_workers == 3
    assert [tuner.workers_to_add(waited=1.0, now=float(now)) for now in range(20)] == [0] * 20


def test_two_cores_start_with_one_worker_and_use_both_within_seconds():
    assert Autotuner(2).num_workers == 1
    assert grown(2, lambda workers: 5 * workers, consumer_rate=1000, seconds=5) == 2
