"""mxtrain with threads."""

from benchmarks.loader.contenders import mxtrain_loader

if __name__ == "__main__":
    mxtrain_loader.run("threads")
