"""Sources of pictures with masks: folders, lists, COCO's JSON and YOLO's texts."""
